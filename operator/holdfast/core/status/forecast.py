"""What people can expect: the reason of the policy's choice, the forecast, and early warnings for deadline and budget.

The numbers in these texts change every second, and a new number alone is not worth a write. A text is written again
when its meaning changes, or together with another change.
"""

from datetime import timedelta
from decimal import Decimal
from math import inf
from typing import Literal

from holdfast.api.attempt import AttemptState
from holdfast.api.scalars import LONGEST, MONEY_MAXIMUM
from holdfast.api.status import Forecast, Phase
from holdfast.core.attempt.pause import budget_forecast
from holdfast.core.attempt.placement import ask, in_order
from holdfast.core.capacity.budget import HOUR, rest_cost
from holdfast.core.capacity.deadline import span
from holdfast.core.capacity.risk import Risk, deadline_risk, lateness
from holdfast.core.capacity.safety_net import find_net
from holdfast.core.draft import Draft
from holdfast.core.status.conditions import drop_condition, find_condition, is_true, set_condition
from holdfast.core.successor.change_tier import wake_for_choice

State = Literal["True", "False", "Unknown"]


def set_forecast_conditions(draft: Draft) -> None:
    """Set decision.message and the conditions of policy, deadline and budget as the policy says."""
    capacity = draft.snapshot.job.spec.capacity
    plain = capacity.policy == "Ordered" and capacity.deadline is None and capacity.budget is None
    changed = not plain and draft.changed
    if draft.status.is_over:
        _set_deadline_outcome(draft)
        return
    _explain(draft, changed=changed)
    _set_policy_fallback(draft, changed=changed)
    _set_deadline_at_risk(draft, changed=changed)
    _set_budget_at_risk(draft, changed=changed)


def forecast(draft: Draft) -> Forecast:
    """The expected cost of the job, and how much time to its deadline may still be wasted."""
    answer, status = ask(draft), draft.status
    if answer is None or status.is_over:
        return Forecast()
    view = answer.outlook.view
    tier = view.here or next((tier for tier in view.tiers if tier.name == answer.choice.tier), None)
    rest = rest_cost(view, tier) if tier else None
    cost = None if rest is None else min(status.ledger.spent + rest, Decimal(MONEY_MAXIMUM))
    if answer.outlook.missing or inf in (view.left, view.work):
        return Forecast(cost=cost)
    net = find_net(view)
    slack = net.slack if net else view.left - view.work / max(tier.speed for tier in view.tiers)
    late = _rough(lateness(view, answer.choice)) or None
    return Forecast(cost=cost, slack=_rough(slack), late=late, at=draft.now)


def _rough(seconds: float) -> timedelta:
    """At least 0; from an hour on, whole minutes."""
    whole = int(min(max(seconds, 0.0), LONGEST.total_seconds()))
    return timedelta(seconds=whole if whole < HOUR else whole - whole % 60)


def _explain(draft: Draft, *, changed: bool) -> None:
    """Set decision.message to the reason of the policy's choice while the job does what the policy says.

    The decision's time is when the job began to do that.
    """
    current, note = draft.status.current, draft.status.decision
    if current is None or current.departure or note is None or in_order(draft):
        return
    doing = {AttemptState.RUNNING: "Run", AttemptState.ACQUIRING: "Acquire"}.get(current.state)
    answer = ask(draft)
    if answer is None or note.action != doing:
        return
    reason = answer.choice.reason
    if _tier_in(note.message) != _tier_in(reason):
        draft.explain(note.action, reason)
    elif changed and note.message != reason:
        draft.set(decision=note.model_copy(update={"message": reason}))


def _tier_in(reason: str) -> str:
    """The tier that a reason begins with."""
    return reason.partition(":")[0]


def _set_policy_fallback(draft: Draft, *, changed: bool) -> None:
    """PolicyFallback: the policy lacks something, and tiers are tried in order until it has it."""
    wanted = draft.snapshot.job.spec.capacity.policy
    answer = ask(draft) if wanted != "Ordered" else None
    if answer is None:
        drop_condition(draft, "PolicyFallback")
    elif answer.missing is None:
        _say(draft, "PolicyFallback", "False", wanted, f"policy {wanted} is in force", changed=changed)
    else:
        text = f"policy {wanted}: {answer.missing.message}; tiers are tried in order until then"
        _say(draft, "PolicyFallback", "True", answer.missing.reason, text, changed=changed)


def _set_deadline_at_risk(draft: Draft, *, changed: bool) -> None:
    """DeadlineAtRisk, while there is a deadline."""
    deadline = draft.snapshot.job.spec.capacity.deadline
    if deadline is None:
        drop_condition(draft, "DeadlineAtRisk")
        return
    if (answer := ask(draft)) is None:
        return  # without a grid nothing is known: the condition stays as it is
    found = deadline_risk(answer.outlook, answer.choice)
    _say(draft, "DeadlineAtRisk", found.status, found.reason, found.message, changed=changed)
    wake_for_choice(draft, answer)
    draft.is_due(deadline)  # the job is late from then on


def _set_deadline_outcome(draft: Draft) -> None:
    """Once the job is complete, say if it met its deadline."""
    deadline, finished = draft.snapshot.job.spec.capacity.deadline, draft.status.finished_at
    if deadline is None or finished is None or draft.status.phase is not Phase.COMPLETED:
        return
    late = (finished - deadline).total_seconds()
    found = Risk("False", "Done", "the job was complete before its deadline")
    if late > 0:
        found = Risk("True", "DeadlineMissed", f"the job was complete {span(late)} after its deadline")
    _say(draft, "DeadlineAtRisk", found.status, found.reason, found.message, changed=True)


def _set_budget_at_risk(draft: Draft, *, changed: bool) -> None:
    """BudgetAtRisk, while there is a budget: True long before the job must stop."""
    if draft.snapshot.job.spec.capacity.budget is None:
        drop_condition(draft, "BudgetAtRisk")
        return
    if (found := budget_forecast(draft)) is None:
        return
    state: State = "False"
    reason = "Enough"
    if found.short:
        state, reason = "True", "Exceeded" if found.pause else "Short"
    elif found.rest is None:
        state, reason = "Unknown", "CostUnknown"
    _say(draft, "BudgetAtRisk", state, reason, found.reason, changed=changed)
    draft.wake_in(found.again_within)


def _say(draft: Draft, kind: str, state: State, reason: str, message: str, *, changed: bool) -> None:
    old = find_condition(draft, kind)
    if not changed and old is not None and (old.status, old.reason) == (state, reason):
        return
    if state == "True" and not is_true(draft, kind):
        draft.event(kind, message, warning=reason != "PaceUnknown")
    set_condition(draft, kind, state, reason, message)
