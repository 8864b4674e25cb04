"""The table of figures: what either side writes, the other reads, and everything that shows figures has all of them."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.status import Progress
from holdfast.serve.collectors import FAMILIES
from holdfast_protocol import figures
from holdfast_protocol.figures import ROWS, UNKNOWN, Figures, decode, number_text, readable

NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(number_text)
VALUES = {
    figures.NUMBER: NUMBERS,
    figures.LOSS: st.floats().map(number_text),
    figures.SHARE: st.floats(0, 1).map(number_text),
    figures.BYTES: st.integers(0, figures.MAX_COUNT),
}
ANY = st.builds(Figures, **{row.name: st.none() | VALUES[row.kind] for row in ROWS})


@given(ANY)
def test_what_is_written_is_read(some: Figures) -> None:
    assert decode(some.encode()) == some
    assert decode({**some.encode(), "ofALaterVersion": [1]}) == some


@given(ANY, ANY)
def test_a_report_clears_what_is_of_a_pace_and_nothing_else(before: Figures, after: Figures) -> None:
    found = after.after(before)
    for row in ROWS:
        new, old = getattr(after, row.name), getattr(before, row.name)
        assert getattr(found, row.name) == (new if new is not None or row.is_pace else old)
    assert all(getattr(found.at_rest(), row.name) is None for row in ROWS if row.is_pace)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from([row.wire_name for row in ROWS]), x)))  # fmt: skip
def test_garbage_is_refused_with_words(body: Any) -> None:
    try:
        decode(body)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize("body", [None, [], "loss"])
def test_what_is_no_object_is_refused(body: Any) -> None:
    with pytest.raises(ValueError, match="allowed: an object of figures"):
        decode(body)


def test_a_fault_names_the_figure_and_what_is_allowed() -> None:
    with pytest.raises(ValueError, match=r"figures.dataWait is '1.5'; allowed: a decimal number from 0 to 1"):
        decode({"dataWait": "1.5"})


# Breaks if a figure is added that people do not see.
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_figure_is_in_status_and_a_metric(row: figures.Row) -> None:
    assert row.name in Progress.model_fields
    assert row.metric in {family.name for family in FAMILIES}


# Breaks if one figure that somebody else has written hides the others.
@given(ANY, st.sampled_from(ROWS), st.sampled_from([[], "high", -1, 1.5, {}]))
def test_what_cannot_be_read_is_not_known(some: Figures, odd: figures.Row, value: Any) -> None:
    assert readable({**some.encode(), odd.wire_name: value}) == replace(some, **{odd.name: None})
    assert readable(value) == UNKNOWN


def test_nothing_is_known_at_first() -> None:
    assert UNKNOWN.encode() == {}
    assert len(ROWS) == len(fields(Figures))
