"""Orders: a pod of any version reads what an operator writes, and one order that it does not know hides no other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocol.strategies import JSON, TEXTS, documents

from holdfast_protocol.document import DocumentError, decode, encode, read_json, to_text
from holdfast_protocol.orders import Order, Orders

MORE = st.dictionaries(TEXTS.map(lambda name: f"x{name}"), JSON, max_size=3)


# Breaks if a pod does not read what an operator writes, or a field that only a newer operator knows.
@given(documents(Orders), MORE)
def test_a_pod_reads_what_an_operator_writes(written: Orders, more: dict[str, Any]) -> None:
    document = read_json(to_text(written)) | more
    document["orders"] = [{**one, **more} for one in document["orders"]]
    assert decode(Orders, document) == written


def test_fields_that_an_older_operator_does_not_know_have_their_defaults() -> None:
    assert decode(Orders, {}) == Orders()
    assert decode(Orders, {"orders": [{"id": 3, "type": "drain"}]}) == Orders(orders=(Order(3, "drain", 0.0, ""),))


# Breaks if an order of a newer operator hides the drain beside it.
def test_an_order_of_a_type_that_a_pod_does_not_know_hides_no_other() -> None:
    found = decode(Orders, {"orders": [{"id": 1, "type": "dance"}, {"id": 2, "type": "drain", "secondsLeft": 9}]})
    assert [one.type for one in found.orders] == ["dance", "drain"]


@given(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(encode(Orders(report_every_seconds=1.0)), JSON)))
def test_garbage_is_read_or_refused_with_words(content: Any) -> None:
    try:
        decode(Orders, content)
    except DocumentError as error:
        assert "; allowed: " in str(error)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"version": 2}, "version is 2; allowed: at most 1"),
        ({"orders": [{"id": "7", "type": "drain"}]}, "orders[0].id is '7'; allowed: a whole number"),
        ({"orders": [{"id": 7}]}, "orders[0].type is None; allowed: a value"),
        (
            {"orders": [{"id": 7, "type": "drain", "secondsLeft": -1}]},
            "secondsLeft is -1; allowed: a number of seconds",
        ),
        ({"reportEverySeconds": 0}, "reportEverySeconds is 0; allowed: a number of seconds above 0"),
    ],
)
def test_answers_that_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(DocumentError) as found:
        decode(Orders, given)
    assert words in str(found.value)


@pytest.mark.parametrize(("told", "expected"), [(None, 15.0), (30.0, 30.0), (1e6, 3600.0)])
def test_how_often_a_pod_reports(told: float | None, expected: float) -> None:
    assert Orders(report_every_seconds=told).interval(15.0) == expected
