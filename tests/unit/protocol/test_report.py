"""The report: each side reads what the other one writes, of any version, and takes no nonsense."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocol.strategies import JSON, TEXTS

from holdfast_protocol.document import DocumentError, encode, read_json, to_text
from holdfast_protocol.figures import UNKNOWN, Figures, number_text
from holdfast_protocol.report import (
    METRIC_NAME,
    FirstStep,
    ProgressReport,
    Resumed,
    Saved,
    Silence,
    SlowRank,
    Staging,
    read,
)

GOOD = {"sender": "Library", "attempt": 1, "podUID": "6f-1", "state": "training", "step": 1}

SLOW = {"rank": 3, "pod": 1, "ownSeconds": "0.9", "othersSeconds": "0.5", "stepSeconds": "1.0"}


@pytest.mark.parametrize(
    ("said", "kept"), [("2.113", "2.113"), ("NaN", "nan"), ("-Infinity", "-inf"), ("1e-5", "1e-5"), (None, None)]
)
def test_losses(said: str | None, kept: str | None) -> None:
    assert read({**GOOD, "figures": {"loss": said}}).figures.loss == kept


def test_metrics() -> None:
    found = read({**GOOD, "metrics": {"accuracy": "0.9", "eval/top-1": "NaN"}})
    assert found.metrics == {"accuracy": "0.9", "eval/top-1": "nan"}
    assert read(GOOD).metrics == {}


def test_memory_and_data() -> None:
    figures = {"dataWait": "0.412", "peakMemory": 5 << 30, "aNewOne": 1}
    found = read({**GOOD, "figures": figures}).figures
    assert (found.data_wait, found.peak_memory) == ("0.412", 5 << 30)
    assert read({**GOOD, "figures": {"dataWait": None}}).figures == UNKNOWN


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
        {"storageSilence": {"seconds": "5"}},
        {"storageSilence": {"seconds": 5, "why": "refused"}},
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
        # of the years 0 and 10000 in UTC, which no status can hold
        {"checkpoint": {"step": 1, "uri": "u", "bytes": 1, "seconds": "1", "committedAt": "0001-01-01T00:00:00+14:00"}},
        {"checkpoint": {"step": 1, "uri": "u", "bytes": 1, "seconds": "1", "committedAt": "9999-12-31T23:59:59-14:00"}},
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
    with pytest.raises(DocumentError):
        read({**GOOD, **bad})


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (
            {"metrics": {"good": "1", "accuracy": "high"}},
            "metrics.accuracy is 'high'; allowed: a decimal number",
        ),
        ({"figures": {"loss": "many"}}, "figures.loss is 'many'; allowed: a decimal number such as"),
        ({"sentAt": "noon"}, "sentAt is 'noon'; allowed: a time with its zone, such as"),
    ],
)
def test_a_refusal_names_the_value_that_is_wrong(bad: dict[str, Any], words: str) -> None:
    with pytest.raises(DocumentError) as found:
        read({**GOOD, **bad})
    assert words in str(found.value)


def test_an_older_library_says_nothing_of_failed_saves() -> None:
    assert read(GOOD).save_error is None
    assert read({**GOOD, "saveError": "x" * 256}).save_error == "x" * 256


def test_a_newer_library_may_say_more() -> None:
    assert read({**GOOD, "mood": "fine"}).step == 1


DECIMALS = st.floats(0, 1e6).map(number_text)
REPORTS = st.builds(
    ProgressReport,
    sender=st.sampled_from(["Library", "Relay", "Folder", "Stager"]),
    attempt=st.integers(1, 9),
    pod_uid=st.just("p-1"),
    state=st.sampled_from(["waiting", "starting", "training", "saving", "left", "completed"]),
    step=st.none() | st.integers(0, 9),
    first_step=st.none() | st.builds(FirstStep, st.integers(0, 9), DECIMALS),
    figures=st.builds(
        Figures, loss=st.none() | st.floats().map(number_text), peak_memory=st.none() | st.integers(0, 9)
    ),
    metrics=st.dictionaries(st.from_regex(METRIC_NAME, fullmatch=True), DECIMALS, max_size=3),
    fenced=st.booleans(),
    resumed_from=st.none() | st.builds(Resumed, st.integers(0, 9), TEXTS, TEXTS),
    checkpoint=st.none()
    | st.builds(
        Saved,
        TEXTS,
        st.integers(0, 9),
        DECIMALS,
        st.just("2026-11-21T12:00:00+00:00"),
        st.none() | st.integers(0, 9),
    ),
    save_error=st.none() | TEXTS,
    storage_silence=st.none() | st.builds(Silence, DECIMALS, st.just("refused")),
    slow_ranks=st.lists(
        st.builds(SlowRank, st.integers(0, 9), st.integers(0, 9), DECIMALS, DECIMALS, DECIMALS),
        max_size=3,
        unique_by=lambda one: one.rank,
    ).map(tuple),
    acknowledged=st.integers(0, 9),
    staging=st.none() | st.builds(Staging, st.integers(0, 9), st.integers(0, 9), st.booleans()),
)


# Breaks if the operator refuses what a pod writes, or a field that only a newer pod knows.
@given(REPORTS, st.dictionaries(TEXTS.map(lambda name: f"x{name}"), JSON, max_size=3))
def test_the_operator_reads_what_a_pod_writes(written: ProgressReport, more: dict[str, Any]) -> None:
    assert read({**read_json(to_text(written)), **more}) == written


# Breaks if a pod of an older version cannot report.
@given(REPORTS, st.sets(st.sampled_from([*encode(read(GOOD)).keys() - {"sender", "attempt", "podUID", "state"}])))
def test_fields_that_an_older_pod_does_not_know_have_their_defaults(written: ProgressReport, gone: set[str]) -> None:
    older = {name: value for name, value in encode(written).items() if name not in gone}
    unset = encode(ProgressReport("Library", 1, "p", "training"))
    assert encode(read(older)) == {**unset, **older}


@given(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(encode(read(GOOD)), JSON)))
def test_garbage_is_read_or_refused_with_words(content: Any) -> None:
    try:
        read({**GOOD, **content} if isinstance(content, dict) else content)
    except DocumentError as error:
        assert "; allowed: " in str(error)
