"""How long a job waits after an attempt that gained nothing."""

from datetime import timedelta

from tests.support.decisions.snapshots import CONFIG, attempt, ended, job, settled, snapshot, status

from holdfast.core.attempt.end import backoff, outage_delay


def delay_after(losses, exit_code):
    """The delay before the next attempt after so many losses in a row, of which the newest has this exit code."""
    decided = settled(
        snapshot(job(status(attempt(fenced=True), fruitless_losses=losses - 1)), ended(1, exit_code))
    ).status
    return decided.current.retry_at - decided.history[-1].ended_at


def test_after_many_losses_of_the_platform_the_delay_grows_to_an_hour():
    killed_from_outside = 137
    minutes = [
        round(delay_after(losses, killed_from_outside) / timedelta(minutes=1)) for losses in (6, 8, 9, 10, 12, 19)
    ]
    assert minutes == [5, 5, 10, 20, 60, 60]


def test_an_outage_of_nine_hours_does_not_end_a_job():
    """Breaks if 20 attempts, the default of maxFruitless, are used up earlier."""
    waits = [
        max(backoff(CONFIG.backoff_base, CONFIG.backoff_limit, losses), outage_delay(CONFIG, losses))
        for losses in range(1, 20)
    ]
    assert sum(waits, timedelta()) > timedelta(hours=9)
