"""What holds of an attempt whose tier is not in the grid any more as its pods were made."""

from holdfast.api.attempt import AttemptState, EndReason
from holdfast.api.status import TrainingJobStatus
from holdfast.core.capacity.grid import offers
from holdfast.core.observe.snapshot import Snapshot


def check_tier_in_use(given: Snapshot, status: TrainingJobStatus) -> None:
    """Raises AssertionError if an attempt that had its nodes ended for its tier, or if nothing says what is gone."""
    for record in status.history:
        assert record.reason != EndReason.TIER_REMOVED or record.scheduled_at is None, record
    current = status.current
    if current is None or current.state is AttemptState.INTENDED or given.job.metadata.deletion_timestamp:
        return
    if not offers(given.grid, current.tier):
        said = [one.message for one in status.conditions if one.type == "SettingsPending"]
        assert said and f"tier {current.tier.name}" in said[0], said
