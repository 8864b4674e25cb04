"""Ends of attempts, and whole histories of events, for tests of what jobs know of tiers."""

from hypothesis import strategies as st
from tests.support.decisions.snapshots import at, attempt, tier

from holdfast.api.attempt import AttemptRecord, EndKind
from holdfast.api.knowledge import Seen
from holdfast.core.capacity import knowledge


def record(**changes):
    """Attempt 1 on spot: it had its node for 600 s, 400 steps of 1 s each, and was reclaimed a minute ago."""
    fields = {
        "number": 1, "tier": "spot", "kind": EndKind.INTERRUPTION, "reason": "SpotInterruption", "raised_at": at(-700),
        "scheduled_at": at(-660), "first_step": 1, "first_step_at": at(-460), "last_step": 401, "last_step_at": at(-60),
        "ended_at": at(-60),
    }  # fmt: skip
    return AttemptRecord(**{**fields, **changes})


TIMES = st.integers(-100_000, 100_000).map(at)
TIERS = st.sampled_from(("spot", "dedicated", "cpu"))
REFUSALS = (Seen.REFUSED, Seen.UNFIT)


@st.composite
def events(draw):
    """A function that folds one event into what is known."""
    name, times = draw(TIERS), sorted(draw(st.lists(TIMES, min_size=4, max_size=4)))
    one = attempt(
        tier=tier(name), created_at=times[0], scheduled_at=draw(TIMES), progress_at=draw(TIMES),
        acquire_deadline=draw(st.none() | TIMES),
    )  # fmt: skip
    over = record(
        tier=name, raised_at=times[0], scheduled_at=draw(st.none() | st.just(times[1])), ended_at=draw(TIMES),
        kind=draw(st.sampled_from(EndKind)), reason=draw(st.sampled_from(("AcquireTimeout", "NodeGone"))),
        last_step_at=draw(TIMES),
    )  # fmt: skip
    node, taken, refusal = draw(st.none() | TIMES), draw(st.booleans()), draw(st.sampled_from(REFUSALS))
    return draw(
        st.sampled_from(
            (
                lambda found: knowledge.record_node(found, one, node),
                lambda found: knowledge.record_first_step(found, one),
                lambda found: knowledge.record_end(found, over, taken=taken, refusal=refusal),
                lambda found: knowledge.record_refusal(found, name, times[0], times[2]),
            )
        )
    )


@st.composite
def histories(draw):
    found = ()
    for event in draw(st.lists(events(), max_size=12)):
        found = event(found)
    return found
