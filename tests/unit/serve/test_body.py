from typing import Any

import pytest
from pydantic import ValidationError

from holdfast.serve.body import ProgressBody
from holdfast_protocol.figures import UNKNOWN

GOOD = {"sender": "Library", "attempt": 1, "podUID": "6f-1", "state": "training", "step": 1}

SLOW = {"rank": 3, "pod": 1, "ownSeconds": "0.9", "othersSeconds": "0.5", "stepSeconds": "1.0"}


@pytest.mark.parametrize(
    ("said", "kept"), [("2.113", "2.113"), ("NaN", "nan"), ("-Infinity", "-inf"), ("1e-5", "1e-5"), (None, None)]
)
def test_losses(said: str | None, kept: str | None) -> None:
    assert ProgressBody.model_validate({**GOOD, "figures": {"loss": said}}).figures.loss == kept


def test_metrics() -> None:
    found = ProgressBody.model_validate({**GOOD, "metrics": {"accuracy": "0.9", "eval/top-1": "NaN"}})
    assert found.metrics == {"accuracy": "0.9", "eval/top-1": "nan"}
    assert ProgressBody.model_validate(GOOD).metrics == {}


def test_memory_and_data() -> None:
    figures = {"dataWait": "0.412", "peakMemory": 5 << 30, "aNewOne": 1}
    found = ProgressBody.model_validate({**GOOD, "figures": figures}).figures
    assert (found.data_wait, found.peak_memory) == ("0.412", 5 << 30)
    assert ProgressBody.model_validate({**GOOD, "figures": {"dataWait": None}}).figures == UNKNOWN


@pytest.mark.parametrize(
    "bad",
    [
        {"figures": {"loss": "2,1"}},
        {"figures": {"loss": "nanana"}},
        {"figures": {"loss": 2.1}},
        {"figures": {"loss": "0." + "9" * 31}},
        {"metrics": {"a b": "1"}},
        {"metrics": {"<b>": "1"}},
        {"metrics": {"": "1"}},
        {"metrics": {"a\n": "1"}},
        {"metrics": {"x" * 65: "1"}},
        {"metrics": {"accuracy": "high"}},
        {"metrics": {"accuracy": 0.9}},
        {"metrics": {f"m{n}": "1" for n in range(17)}},
        {"figures": {"samplesPerSecond": "nan"}},
        {"figures": {"secondsPerStep": "1_000"}},
        {"figures": {"dataWait": "1.01"}},
        {"figures": {"dataWait": "-0.1"}},
        {"figures": {"dataWait": "1e9999"}},
        {"figures": {"dataWait": "nan"}},
        {"figures": {"dataWait": 0.4}},
        {"figures": {"peakMemory": -1}},
        {"figures": {"peakMemory": 2**53}},
        {"figures": {"peakMemory": 1.5}},
        {"figures": {"peakMemory": "5Gi"}},
        {"figures": 5},
        {"sender": "Stranger"},
        {"step": -1},
        {"step": 2**53},
        {"step": "x"},
        {"attempt": 0},
        {"podUID": ""},
        {"podUID": "a b"},
        {"state": "dancing"},
        {"acknowledged": -1},
        {"saveError": "x" * 257},
        {"saveError": 5},
        {"memoryWarning": "x" * 257},
        {"slowRanks": [{"rank": 1}]},
        {"slowRanks": [{**SLOW, "ownSeconds": "nan"}]},
        {"slowRanks": [{**SLOW, "rank": -1}]},
        {"slowRanks": [{**SLOW, "rank": rank} for rank in range(9)]},
        {"slowRanks": [SLOW, {**SLOW, "ownSeconds": "0.8"}]},
        {"slowRanks": [{**SLOW, "rank": 2**20}]},
        {"slowRanks": [{**SLOW, "pod": 1024}]},
        {"figures": {"loss": "\N{ARABIC-INDIC DIGIT TWO}"}},
        {"figures": {"secondsPerStep": "\N{FULLWIDTH DIGIT ONE}.5"}},
        {"resumedFrom": {"step": 1}},
        {"firstStep": 1},
        {"firstStep": {"step": 1}},
        {"firstStep": {"step": -1, "secondsAgo": "1"}},
        {"firstStep": {"step": 1, "secondsAgo": 1.0}},
        {"checkpoint": {"step": 1, "uri": "u", "bytes": -1, "seconds": "1", "committedAt": "2026-11-21T12:00:00Z"}},
        {"checkpoint": {"step": 1, "uri": "u", "bytes": 1, "seconds": "1", "committedAt": "2026-11-21T12:00:00"}},
        {
            "checkpoint": {
                "step": 1,
                "uri": "u" * 3000,
                "bytes": 1,
                "seconds": "1",
                "committedAt": "2026-11-21T12:00:00Z",
            }
        },
    ],
)
def test_bad_bodies(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ProgressBody.model_validate({**GOOD, **bad})


def test_an_older_library_says_nothing_of_failed_saves() -> None:
    assert ProgressBody.model_validate(GOOD).save_error is None
    assert ProgressBody.model_validate({**GOOD, "saveError": "x" * 256}).save_error == "x" * 256


def test_a_newer_library_may_say_more() -> None:
    assert ProgressBody.model_validate({**GOOD, "mood": "fine"}).step == 1
