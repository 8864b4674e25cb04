"""Documents: what is written is read, and nothing that is wrong is taken for a default."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocol.strategies import JSON

from holdfast_protocol import document as kind
from holdfast_protocol.document import DocumentError, decode, encode, read_json, to_text


@dataclass(frozen=True)
class Inner:
    size: int = kind.whole(kind.REQUIRED, least=1, most=9)


@dataclass(frozen=True)
class Outer:
    name: str = kind.text("a", most=5)
    top_speed: float | None = kind.seconds(above=0)
    is_on: bool = kind.flag()
    mode: str = kind.choice("Min", "Max")
    words: tuple[str, ...] = kind.texts(most=2, characters=3)
    inner: Inner | None = kind.part(Inner)
    others: tuple[Inner, ...] = kind.parts(Inner, most=2)


def test_names_are_in_camel_case_and_what_is_not_set_is_left_out() -> None:
    found = encode(Outer(top_speed=2.0, inner=Inner(3), others=(Inner(4),)))
    assert found == {
        "name": "a", "topSpeed": 2.0, "isOn": False, "mode": "Min", "words": [], "inner": {"size": 3},
        "others": [{"size": 4}],
    }  # fmt: skip


# Breaks if an older or newer writer is refused: one that knows fewer fields, or more.
def test_unknown_fields_are_ignored_and_missing_ones_have_their_defaults() -> None:
    assert decode(Outer, {"future": {"x": [1]}, "inner": {"size": 3, "colour": "red"}}) == Outer(inner=Inner(3))
    assert decode(Outer, {"topSpeed": None, "words": None}) == Outer()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "the document is []; allowed: an object"),
        ({"name": ""}, "name is ''; allowed: a text of 1 to 5 characters"),
        ({"name": 1}, "name is 1; allowed: a text"),
        ({"topSpeed": 0}, "topSpeed is 0; allowed: a number of seconds above 0"),
        ({"topSpeed": float("nan")}, "topSpeed is nan; allowed"),
        ({"topSpeed": True}, "topSpeed is True; allowed"),
        ({"topSpeed": 10**400}, "allowed: a number of seconds above 0"),
        ({"isOn": "true"}, "isOn is 'true'; allowed: true or false"),
        ({"mode": "min"}, "mode is 'min'; allowed: Min or Max"),
        ({"words": "ab"}, "words is 'ab'; allowed: a list of at most 2 texts of at most 3 characters"),
        ({"words": ["a", "b", "c"]}, "allowed: a list of at most 2"),
        ({"words": [""]}, "words is ['']; allowed"),
        ({"inner": {"size": 0}}, "inner.size is 0; allowed: a whole number from 1 to 9"),
        ({"inner": {}}, "inner.size is None; allowed: a value; the field must be set"),
        ({"others": [{"size": 1}, {"size": 1.5}]}, "others[1].size is 1.5; allowed: a whole number"),
        ({"others": [{}] * 3}, "allowed: a list of at most 2 objects"),
        ({"name": "x" * 1000}, "...; allowed"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(given: Any, words: str) -> None:
    with pytest.raises(DocumentError) as found:
        decode(Outer, given)
    assert words in str(found.value)
    assert len(str(found.value)) < 300


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, "nul", '"\ud800', "9" * 5000])
def test_what_is_not_json_is_refused_with_words(content: str) -> None:
    with pytest.raises(DocumentError, match="allowed"):
        read_json(content)


@given(JSON)
def test_garbage_is_read_or_refused(content: Any) -> None:
    try:
        found = decode(Outer, content)
    except DocumentError as error:
        assert "; allowed: " in str(error)
    else:
        assert decode(Outer, json.loads(to_text(found))) == found


@given(st.text(max_size=5, min_size=1))
def test_a_text_has_no_dollar_on_its_way(name: str) -> None:
    assert "$" not in to_text(Outer(name=name))
    assert decode(Outer, read_json(to_text(Outer(name=name)))) == Outer(name=name)
