"""What every decision ends with, in order: old pods, what people see in status, costs, and the time to live."""

from datetime import timedelta
from typing import Final

from holdfast.api.attempt import AttemptState
from holdfast.core.attempt.clock_ahead import TOLERATED
from holdfast.core.attempt.pause import costs_so_far
from holdfast.core.books import ledger
from holdfast.core.capacity.grid import find_tier
from holdfast.core.decision import DeleteJob
from holdfast.core.draft import Draft, Role
from holdfast.core.observe.members import WAITING, paid_nodes
from holdfast.core.observe.situation import Situation
from holdfast.core.status.columns import set_columns
from holdfast.core.status.conditions import set_conditions
from holdfast.core.status.forecast import forecast, set_forecast_conditions
from holdfast.core.status.long_waits import explain_lack, explain_long_wait
from holdfast.core.status.never_fits import show_misfit
from holdfast.core.status.old_pods import tidy_pods
from holdfast.core.status.progress import rest_progress
from holdfast.core.status.resting_tiers import show_resting_tiers
from holdfast.core.status.slow_ranks import show_slow_ranks
from holdfast.core.status.spec_conditions import show_spec_conditions
from holdfast.core.status.staging import show_staging
from holdfast.core.status.start_blocked import inspect_unprepared, show_start_trouble
from holdfast.core.status.what_next import tell_next

COST_EVERY: Final = timedelta(minutes=1)


def wrap_up(draft: Draft, s: Situation) -> None:
    """Bring pods and status in line with what was decided. Changes nothing the second time."""
    tidy_pods(draft)
    if draft.snapshot.job.metadata.deletion_timestamp or _is_left_alone(draft):
        return
    if not draft.snapshot.job.status.is_over:
        explain_long_wait(draft, s)
        explain_lack(draft)
        show_start_trouble(draft, s)
        show_staging(draft, s)
        inspect_unprepared(draft, s)
        set_columns(draft, s)
        rest_progress(draft)
        if draft.status.phase is not draft.snapshot.job.status.phase:
            draft.set(phase_since=draft.now)
        set_forecast_conditions(draft)
        show_resting_tiers(draft)
        show_slow_ranks(draft, s)
        show_spec_conditions(draft)
        show_misfit(draft)
        set_conditions(draft, s)
        _count_start(draft)
        _follow_changes(draft)
        _look_again(draft)
    _delete_expired(draft)


def _is_left_alone(draft: Draft) -> bool:
    """True if the job's namespace is being deleted, and nothing happened that has to be in status."""
    return draft.snapshot.namespace_closed and draft.status is draft.snapshot.job.status


def _count_start(draft: Draft) -> None:
    """Write the cost of nodes that are held while nothing else is worth a write: during the pull of an image, or
    while a training on several nodes waits for the others.

    A program that runs reports, and its cost is written with its reports.
    """
    current = draft.status.current
    begins = current is not None and current.state in (*WAITING, AttemptState.STARTING)
    held = paid_nodes(current) if current and begins else 0
    price = current.tier.price_per_node_hour if current and held else None
    if not price:
        return
    draft.wake(draft.now + COST_EVERY)
    costs = costs_so_far(draft)
    if costs.spent - draft.status.ledger.spent >= ledger.price_of(price * held, COST_EVERY) > 0:
        draft.set(ledger=costs)


def _follow_changes(draft: Draft) -> None:
    """Update what happens next and, if there is a change, cost and forecast, which are not a reason to write."""
    tiers = draft.snapshot.grid
    for role in Role:
        attempt = draft.attempt(role)
        tier = find_tier(tiers, attempt.tier.name) if attempt else None
        if attempt and tier and (price := tier.price_per_node_hour) != attempt.tier.price_per_node_hour:
            draft.set(**{role: ledger.reprice(attempt, price, draft.now)})
    tell_next(draft)
    if draft.changed:
        draft.set(ledger=costs_so_far(draft))
        draft.set(forecast=forecast(draft))


def _look_again(draft: Draft) -> None:
    """Decide again within an hour, also without an event. A job that has ended needs no further decision."""
    if not draft.status.is_over:
        draft.wake(draft.now + draft.snapshot.config.look_again)


def _delete_expired(draft: Draft) -> None:
    """Delete a finished job when its time to live is over."""
    ttl, finished = draft.snapshot.job.spec.ttl_after_finished, draft.status.finished_at
    if ttl is None or finished is None:
        return
    if finished > draft.now + TOLERATED:  # by the clock of an earlier leader
        draft.set(finished_at=draft.now)
        finished = draft.now
    if draft.is_due(finished + ttl):
        draft.act(DeleteJob(draft.snapshot.job.metadata.uid))
