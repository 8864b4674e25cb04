"""The description of an exported state."""

import json

import pytest

from holdfast_train.errors import StateError
from holdfast_train.exchange.content import Description


def test_a_description_comes_back_as_it_was_written() -> None:
    tree = {"$dict": [["weight", {"$tensor": "weight"}], ["step", 3]]}
    described = Description(7, ("model",), tree, {"head": "weight"}, {"order": ("<i4", (2, 3))})
    assert Description.decode(described.encode()) == described
    assert described.objects({"weight": "a tensor"}) == {"model": {"weight": "a tensor", "step": 3}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps({"v": 3}), "with version 3 of the description; this one reads version 1"),
        ("junk", "the description of the state cannot be read"),
        (json.dumps({"v": 1, "arrays": {}}), "the description of the state cannot be read"),
    ],
)
def test_a_description_that_cannot_be_read(text: str, words: str) -> None:
    with pytest.raises(StateError, match=words):
        Description.decode(text)
