"""Condition DeadlineAtRisk: whether the job will miss its deadline, by how much, and why nothing can be promised."""

from dataclasses import dataclass
from typing import Literal

from holdfast.core.capacity.deadline import span
from holdfast.core.capacity.outlook import Outlook
from holdfast.core.capacity.policy_input import Choice, View
from holdfast.core.capacity.safety_net import find_net, spare


@dataclass(frozen=True, slots=True)
class Risk:
    """The condition DeadlineAtRisk: True if the job may miss the deadline, Unknown if that cannot be said."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def deadline_risk(outlook: Outlook, choice: Choice) -> Risk:
    """The risk of a job that has a deadline; `choice` is the answer of its policy."""
    view = outlook.view
    if view.work <= 0:
        return Risk("False", "Done", "the work is done")
    if view.left <= 0:
        by = "" if outlook.missing else f", and the job will be late by {span(lateness(view, choice))}"
        return Risk("True", "DeadlineOver", f"the deadline was {span(-view.left)} ago{by}")
    if outlook.missing:
        return Risk("Unknown", outlook.missing.reason, outlook.missing.message)
    late = lateness(view, choice)
    if late >= 1:
        return Risk("True", "Late", f"late by {span(late)} even if no node is lost from now on")
    if not any(tier.dependable and view.work / tier.speed <= view.left for tier in view.tiers):
        return Risk("True", "NoDedicatedTier", "no dedicated tier is fast enough: nothing can be promised")
    net = find_net(view)
    if choice.promised:
        text = "the deadline is met even without Spot nodes"
        if net is not None and net.tier.available is None and net.tier.name != view.tier:
            text += f", if {net.tier.name} gives a node in time: whether it has one is not known"
        return Risk("False", "InTime", text)
    if net is not None and net.tier.available is False and net.tier.name != view.tier:
        return Risk("True", "DedicatedRefused", f"{net.tier.name} is out: nothing can be promised")
    if net is not None and spare(view, net.tier) < 0:
        short = span(-spare(view, net.tier))
        return Risk("True", "NoSlackLeft", f"in time if no node is lost; {short} late in the worst case")
    return Risk("False", "InTime", "in time at the present pace; only policy Deadline guarantees it")


def lateness(view: View, choice: Choice) -> float:
    """By how many seconds the job is late if nothing goes wrong on the tier of `choice`; 0 if it is in time.

    While the deadline is promised, policy Deadline leaves a tier that is too slow in time.
    """
    if choice.late or choice.promised:
        return choice.late
    tier = next((tier for tier in view.tiers if tier.name == choice.tier), None)
    if tier is None:
        return 0.0
    changing = view.changing if tier.name == view.tier else tier.changeover
    return max(view.work / tier.speed + changing - view.left, 0.0)
