"""DeadlineAtRisk: whether the deadline will be missed, by how much, and why nothing can be promised."""

from dataclasses import dataclass
from typing import Literal

from holdfast.core.capacity.deadline import span
from holdfast.core.capacity.outlook import Outlook
from holdfast.core.capacity.policy_input import Choice, View
from holdfast.core.capacity.safety_net import find_net, spare


@dataclass(frozen=True, slots=True)
class Risk:
    """The condition DeadlineAtRisk: True if the deadline may be missed, Unknown if nobody can tell."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def deadline_risk(outlook: Outlook, choice: Choice) -> Risk:
    """The risk of a job that has a deadline; `choice` is what its policy answered."""
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
        return Risk("True", "Late", f"late by {span(late)} even if nothing is lost from here on")
    if not any(tier.dependable and view.work / tier.speed <= view.left for tier in view.tiers):
        return Risk("True", "NoDedicatedTier", "no dedicated tier is fast enough: nothing can be promised")
    if choice.promised:
        return Risk("False", "InTime", "the deadline is met whatever Spot does")
    net = find_net(view)
    if net is not None and net.tier.available is False and net.tier.name != view.tier:
        return Risk("True", "DedicatedRefused", f"{net.tier.name} cannot be had now: nothing can be promised")
    if net is not None and spare(view, net.tier) < 0:
        short = span(-spare(view, net.tier))
        return Risk("True", "NoSlackLeft", f"in time if nothing is lost; if all goes badly, {short} late")
    return Risk("False", "InTime", "in time as things stand; only policy Deadline keeps it so")


def lateness(view: View, choice: Choice) -> float:
    """By how many seconds the job is late if all goes well where it is or is to be; 0 if it is in time.

    Where the deadline is promised, a slower tier is left in time.
    """
    if choice.late or choice.promised:
        return choice.late
    tier = next((tier for tier in view.tiers if tier.name == choice.tier), None)
    if tier is None:
        return 0.0
    changing = view.changing if tier.name == view.tier else tier.changeover
    return max(view.work / tier.speed + changing - view.left, 0.0)
