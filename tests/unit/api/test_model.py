"""What every model shares: reading, writing, patching."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.api.attempt import AttemptRecord, EndKind
from holdfast.api.model import merge_patch
from holdfast.api.status import Condition, Ledger, Progress, Restarts, TrainingJobStatus

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)

PROGRESS = st.builds(
    Progress,
    step=st.integers(0, 10**9),
    steps=st.none() | st.integers(0, 10**9),
    loss=st.none() | st.just("2.113"),
    updated_at=st.none() | st.datetimes(timezones=st.just(UTC)),
)
STATUS = st.builds(
    TrainingJobStatus,
    attempt=st.integers(0, 1000),
    tier=st.none() | st.sampled_from(["spot", "cpu"]),
    progress=PROGRESS,
    restarts=st.builds(Restarts, interruptions=st.integers(0, 9)),
    ledger=st.builds(Ledger, seconds_lost=st.timedeltas(timedelta(0), timedelta(days=9))),
    failed_at=st.lists(st.datetimes(timezones=st.just(UTC)), max_size=3).map(tuple),
)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, as the API server applies it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@given(STATUS)
def test_an_object_survives_being_written(status: TrainingJobStatus) -> None:
    written = status.to_object()
    assert TrainingJobStatus.model_validate(written) == status
    assert TrainingJobStatus.model_validate(written).to_object() == written


@given(STATUS, STATUS)
def test_a_patch_leads_from_one_to_the_other(before: TrainingJobStatus, after: TrainingJobStatus) -> None:
    assert merged(before.to_object(), merge_patch(before, after)) == after.to_object()


@given(STATUS)
def test_nothing_new_is_an_empty_patch(status: TrainingJobStatus) -> None:
    assert merge_patch(status, status) == {}


@given(STATUS, STATUS)
def test_a_patch_preserves_what_a_newer_version_wrote(before: TrainingJobStatus, after: TrainingJobStatus) -> None:
    stored = {**before.to_object(), "fromTheFuture": {"a": 1}}
    stored["progress"]["fromTheFuture"] = 2
    result = merged(stored, merge_patch(TrainingJobStatus.model_validate(stored), after))
    assert result["fromTheFuture"] == {"a": 1}
    assert result["progress"]["fromTheFuture"] == 2


def test_models_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TrainingJobStatus().attempt = 2  # type: ignore[misc]


def test_long_messages_are_cut_even_after_a_copy() -> None:
    condition = Condition(type="Failed", status="True", reason="X", message="m" * 9999, last_transition_time=NOW)
    assert len(condition.message) == 4096
    copied = condition.model_copy(update={"message": "m" * 9999})
    assert len(copied.to_object()["message"]) == 4096


def test_history_stays_small() -> None:
    record = AttemptRecord(number=1, tier="spot", kind=EndKind.INTERRUPTION, reason="R", raised_at=NOW, ended_at=NOW)
    full = record.model_copy(update={"message": "m" * 9999})
    assert len(full.to_object()["message"]) <= 2560
    with pytest.raises(ValidationError, match="at most 20"):
        TrainingJobStatus(history=tuple(record.model_copy(update={"number": n}) for n in range(21)))
