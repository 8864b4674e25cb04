"""The codec of everything that is stored."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast_train.format.codec import decoded
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.sealed_json import canonical


@dataclass(frozen=True)
class Inner:
    pod_uid: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Outer:
    set_aside: tuple[CheckpointName, ...]
    inner: Inner | None
    inners: tuple[Inner, ...]
    words: Mapping[str, str]
    tree: Any = None


NAME = CheckpointName(1, 2, "0f")
WHOLE = Outer((NAME,), Inner("p", (2, 3)), (Inner("q", ()),), {"data_set/a_b": "c_d"}, {"$dict": [["a_b", 1]]})


@pytest.mark.parametrize("value", [WHOLE, Outer((), None, (), {})])
def test_what_is_encoded_is_decoded(value: Outer) -> None:
    assert decoded(Outer, json.loads(canonical(value))) == value


def test_fields_are_camel_case_and_keys_of_mappings_stay() -> None:
    body = json.loads(canonical(WHOLE))
    assert body["setAside"] == [str(NAME)]
    assert body["inner"] == {"podUID": "p", "shape": [2, 3]}
    assert (body["words"], body["tree"]) == (WHOLE.words, WHOLE.tree)


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"set_aside": []},
        {"setAside": ["best"]},
        {"setAside": None},
        {"inner": {"podUID": "p"}},
        {"inner": 1},
    ],
)
def test_other_content_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        decoded(Outer, {**json.loads(canonical(WHOLE)), **change})
    body = json.loads(canonical(WHOLE))
    del body["words"]
    with pytest.raises(KeyError):
        decoded(Outer, body)
