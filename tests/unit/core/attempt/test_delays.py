"""How long a job waits after something that did not work."""

from datetime import timedelta

from tests.support.decisions.snapshots import CONFIG, at

from holdfast.api.attempt import AttemptRecord, EndKind
from holdfast.core.attempt.delays import backoff, outage_delay, quick_delay, spread

SECOND = timedelta(seconds=1)


def test_a_delay_doubles_up_to_its_limit():
    found = [backoff(SECOND, 10 * SECOND, times) for times in (1, 2, 3, 4, 5, 10_000)]
    assert found == [times * SECOND for times in (1, 2, 4, 8, 10, 10)]


def test_an_outage_of_nine_hours_does_not_end_a_job():
    """Breaks if 20 attempts, the default of maxFruitless, are used up earlier."""
    waits = [
        max(backoff(CONFIG.backoff_base, CONFIG.backoff_limit, interruptions), outage_delay(CONFIG, interruptions))
        for interruptions in range(1, 20)
    ]
    assert sum(waits, timedelta()) > timedelta(hours=9)


def test_only_attempts_that_end_soon_after_their_start_cost_a_delay_in_the_same_pods():
    def record(number, lasted):
        started = at(-lasted) if lasted is not None else None
        return AttemptRecord(number=number, tier="spot", kind=EndKind.INTERRUPTION, reason="Killed", raised_at=at(-900),
                             started_at=started, ended_at=at(0))  # fmt: skip

    def delay(*lasted):
        history = [record(number, seconds) for number, seconds in enumerate(lasted, 1)]
        return quick_delay(CONFIG, history).total_seconds()

    assert [delay(), delay(3), delay(3, 3), delay(3, 3, 9), delay(3, 3, 11), delay(3, 3, None)] == [0, 0, 1, 2, 0, 0]
    assert delay(*[1] * 20) == CONFIG.backoff_limit.total_seconds()


def test_names_spread_a_delay_over_its_second_half():
    found = [spread(timedelta(seconds=10), f"job {number}").total_seconds() for number in range(200)]
    assert 5 <= min(found) < 5.5
    assert 9.5 < max(found) <= 10
    assert spread(timedelta(seconds=10), "job 7").total_seconds() == found[7]
