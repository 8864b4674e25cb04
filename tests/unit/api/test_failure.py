"""What is done when a program fails, as people write it."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from holdfast.api.failure import Failure, SlowRanks, Spike, StallTimeout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Auto", StallTimeout(auto=True)),
        ("Off", StallTimeout()),
        ("20m", StallTimeout(period=timedelta(minutes=20))),
        ("1d", StallTimeout(period=timedelta(days=1))),
    ],
)
def test_a_stall_timeout_is_read(text: str, expected: StallTimeout) -> None:
    found = Failure.model_validate({"stallTimeout": text}).stall_timeout
    assert (found, str(found)) == (expected, text)


@pytest.mark.parametrize("text", ["auto", "off", "9s", "8d", "-20m", "", 20, None, {"auto": True, "period": "PT20M"}])
def test_a_text_that_is_no_stall_timeout_is_refused(text: object) -> None:
    with pytest.raises(ValidationError):
        Failure.model_validate({"stallTimeout": text})


def test_a_hang_is_looked_for_unless_it_is_switched_off() -> None:
    assert Failure().stall_timeout == StallTimeout(auto=True)


def test_a_spike_has_defaults_and_is_off_without_them() -> None:
    assert Failure().spike is None
    given = Failure.model_validate({"spike": {}}).spike
    assert given == Spike(deviations=10, steps=10, window=200)


@pytest.mark.parametrize("given", [{"deviations": 2}, {"steps": 51}, {"window": 19}, {"window": "200"}, "Off"])
def test_a_spike_that_makes_no_sense_is_refused(given: object) -> None:
    with pytest.raises(ValidationError):
        Failure.model_validate({"spike": given})


def test_a_spike_without_an_answer_is_refused() -> None:
    with pytest.raises(ValidationError, match="nonFinite Rollback or Stop"):
        Failure.model_validate({"spike": {}, "nonFinite": "Ignore"})


@pytest.mark.parametrize("given", [{"action": "Kill"}, {"window": "500ms"}, {"window": "2h"}, "Tell"])
def test_slow_ranks_that_make_no_sense_are_refused(given: object) -> None:
    with pytest.raises(ValidationError):
        Failure.model_validate({"slowRanks": given})


def test_a_slow_rank_is_only_told_unless_the_job_says_otherwise() -> None:
    assert Failure().slow_ranks == SlowRanks(action="Tell", window=timedelta(minutes=5))
