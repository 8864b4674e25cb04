"""State to bytes and back, exactly."""

import json
import math
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.trainer.stores import packed, unpacked
from torch.testing._internal.two_tensor import TwoTensor

from holdfast_train.errors import CheckpointCorruptError, StateError
from holdfast_train.format.manifest import Manifest, Part, check_chunks, decode, encode
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.repeated_walk import RepeatedWalk
from holdfast_train.format.stateful import Stateful
from holdfast_train.format.tree import Tree, Walk, unpack
from holdfast_train.storage.checksums import chunk_sums


def round_trip(value: Any) -> Any:
    tree, tensors, data = packed(value)
    manifest = Manifest(CheckpointName(1, 1, "0"), 1, 1, "u", "t", {}, {}, {}, (), tensors, tree, ())
    again = decode(encode(manifest))  # through JSON, as in storage
    return unpacked(again.state, again.tensors, data)


leaves = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values)
def test_values_come_back_as_they_were(value: Any) -> None:
    back = round_trip(value)
    assert back == value
    assert repr(back) == repr(value)  # 1 and True and 1.0 are equal, but not the same


def test_a_large_byte_string_is_a_leaf() -> None:
    """Breaks if it is in the tree: as base64 in JSON it takes ten times its size in memory."""
    value = {"state": bytes(range(256)) * 4096, "small": b"small"}
    tree, tensors, _ = packed(value)
    assert [(entry.name, entry.kind, entry.size) for entry in tensors] == [("state/state", "bytes", 1 << 20)]
    assert len(json.dumps(tree)) < 200
    back = round_trip(value)
    assert back == value
    assert {type(one) for one in back.values()} == {bytes}


def test_special_floats_and_order() -> None:
    assert math.isnan(round_trip(math.nan))
    assert round_trip([math.inf, -math.inf, -0.0]) == [math.inf, -math.inf, -0.0]
    assert list(round_trip(OrderedDict(b=1, a=2))) == ["b", "a"]


TENSORS = [
    torch.arange(12, dtype=torch.float32).reshape(3, 4).t(),
    torch.tensor(3.5),
    torch.empty(0, 3),
    torch.tensor([True, False]),
    torch.randn(5).to(torch.bfloat16),
    torch.randn(5).to(torch.float16),
    torch.randn(5, dtype=torch.float64),
    torch.tensor([2**62, -1]),
    torch.randn(3, dtype=torch.complex64),
    torch.randn(4).to(torch.float8_e4m3fn),
    torch.randn(4, requires_grad=True),
]


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda t: f"{t.dtype}{tuple(t.shape)}")
def test_tensors(tensor: torch.Tensor) -> None:
    back = round_trip({"t": tensor})["t"]
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert back.reshape(-1).view(torch.uint8).tolist() == tensor.detach().reshape(-1).view(torch.uint8).tolist()


def test_arrays() -> None:
    for array in (np.arange(6, dtype=">i4").reshape(2, 3), np.zeros((0, 2)), np.array(2.5), np.array(["ab", "c"])):
        back = round_trip([array])[0]
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert (back == array).all()
    assert type(round_trip(np.float32(1.5))) is np.float32


def test_views_that_have_other_values_than_their_memory() -> None:
    """Breaks if x.conj() is stored as x, or as one tensor with it."""
    x = torch.tensor([1 + 2j, 3 - 4j])
    imaginary = torch.tensor([1 + 2j]).conj().imag
    assert imaginary.is_contiguous()
    state = {"x": x, "conjugated": x.conj(), "negated": imaginary, "both": x.conj().imag}
    back = round_trip(state)
    for name, value in state.items():
        assert torch.equal(back[name], value), name


@pytest.mark.parametrize("array", [np.zeros(2, dtype=[("a", "i4"), ("b", "f4")]), np.zeros(2, "i4,i4")[0]])
def test_arrays_of_fields_are_refused(array: Any) -> None:
    """Breaks if they come back as bytes without fields."""
    with pytest.raises(StateError, match=r"state/x is a NumPy array of \[.*Return each field as its own array"):
        Walk().tree({"x": array}, "state")


class Tagged(torch.Tensor):
    """A subclass with memory of its own."""


class Reference(torch.Tensor):
    """A subclass without memory, as quantized optimizer states are."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Reference":
        made: Reference = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        return made

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        return cls(arguments[0].inner)


def freed() -> torch.Tensor:
    """As libraries free the memory of a tensor that they keep."""
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (
            TwoTensor(torch.ones(4), torch.zeros(4)),
            "a torch.testing._internal.two_tensor.TwoTensor, a tensor that keeps",
        ),
        (Reference(torch.ones(4)), r".*\.Reference, a tensor that keeps its values in other tensors; return these"),
        (torch.ones(3, device="meta"), "a tensor without values"),
        (torch.nn.LazyLinear(3).weight, "a tensor without values"),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "a nested tensor"),
        (freed(), "a tensor whose memory was freed"),
    ],
)
def test_tensors_without_values_of_their_own_are_refused_by_name(value: Any, what: str) -> None:
    """Breaks if memory is read that they do not have: the process would die, or a checkpoint would be wrong."""
    with pytest.raises(StateError, match=f"state/x is {what}"):
        Walk().tree({"x": value}, "state")


def test_a_subclass_with_memory_of_its_own_is_saved_by_its_values() -> None:
    tensor = torch.arange(6.0).as_subclass(Tagged)
    back = round_trip({"x": tensor, "tied": tensor, "empty": torch.empty(0).as_subclass(Tagged)})
    assert type(back["x"]) is torch.Tensor
    assert back["x"].tolist() == tensor.tolist()
    assert packed({"x": tensor, "tied": tensor})[1][0].size == 24


def test_tied_weights_are_stored_once() -> None:
    weight = torch.randn(100)
    tree, tensors, data = packed({"a": weight, "b": weight, "c": weight[:50]})
    assert [entry.size for entry in tensors] == [400, 200]
    back = unpacked(tree, tensors, data)
    assert torch.equal(back["b"], weight)
    assert back["a"] is back["b"]
    assert back["c"].data_ptr() != back["a"].data_ptr()


def test_an_array_in_two_places_is_one_array_again() -> None:
    """Breaks if a change through one place is not seen in the other one any more after a resume."""
    array, empty = np.arange(6.0), np.zeros((0, 2))
    tree, entries, data = packed({"a": array, "b": [array], "part": array[:3], "none": empty, "nothing": empty})
    assert [entry.size for entry in entries] == [48, 24, 0, 0]
    back = unpacked(tree, entries, data)
    assert back["a"] is back["b"][0]
    assert back["part"].tolist() == [0, 1, 2]


channels_last = torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last)
LAYOUTS = [
    channels_last,
    torch.ones(4, 3, 1, 1).to(memory_format=torch.channels_last),  # of 1x1 convolutions: lies by rows in any case
    channels_last.to(torch.bfloat16),
    torch.arange(6).reshape(2, 3).t(),
    torch.arange(24).reshape(2, 3, 4).permute(2, 0, 1),
]


# Breaks if the state of an optimizer does not lie in memory as its parameter does: a fused step mixes up their values.
@pytest.mark.parametrize("tensor", LAYOUTS, ids=lambda tensor: str(tensor.stride()))
def test_a_tensor_lies_in_memory_as_it_did(tensor: torch.Tensor) -> None:
    back = round_trip({"x": tensor, "too": tensor, "negated": tensor.conj()})
    assert back["x"].stride() == back["negated"].stride() == tensor.stride()
    assert torch.equal(back["x"], tensor)
    assert back["too"] is back["x"]


def test_a_copy_of_an_expanded_tensor_lies_by_rows() -> None:
    assert round_trip({"x": torch.ones(1).expand(3, 2)})["x"].stride() == (2, 1)
    assert round_trip({"x": torch.arange(6.0)[::2]})["x"].stride() == (1,)


@pytest.mark.parametrize("array", [np.asfortranarray(np.arange(6).reshape(2, 3)), np.zeros((2, 3, 4), "U2").T])
def test_an_array_lies_in_memory_as_it_did(array: Any) -> None:
    back = round_trip({"x": array})["x"]
    assert (back.strides, back.dtype) == (array.strides, array.dtype)
    assert (back == array).all()


def test_optimizer_state_comes_back() -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    back = round_trip(state)
    assert str(back) == str(state)
    optimizer.load_state_dict(back)
    assert isinstance(optimizer, Stateful)


# Breaks if a program gets something else for its key after a resume, and does not find its values.
@pytest.mark.parametrize(
    "keys",
    [
        [np.int64(3), np.int64(5)],
        [np.str_("a"), np.str_("")],
        [(np.int8(1), "x"), (2, (np.float32(0.5),))],
        [np.datetime64("2020-01-01"), np.bool_(True), np.bytes_(b"ab")],
        [None, True, 0.5, b"a", 2**70, torch.float16, torch.Size([2])],
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [dict, OrderedDict, Counter])
def test_keys_come_back_as_they_were(kind: Any, keys: list[Any]) -> None:
    value = kind(dict(zip(keys, range(9), strict=False)))
    back = round_trip({"x": value})["x"]
    assert back == value
    assert [(type(key), repr(key)) for key in back] == [(type(key), repr(key)) for key in value]


@pytest.mark.parametrize("key", [torch.ones(2), (1, torch.ones(2)), bytes(5000)], ids=lambda key: type(key).__name__)
def test_a_key_that_is_not_a_short_value_is_refused_by_name(key: Any) -> None:
    """Breaks if a program gets another object for its key, which no value of its own is equal to."""
    with pytest.raises(StateError, match=r"^state/x has a key with a tensor"):
        Walk().tree({"x": {key: 1}}, "state")
    with pytest.raises(StateError, match=r"^state/x has a key with a tensor"):
        Walk().tree({"x": {key: torch.ones(1), **{number: torch.ones(1) for number in range(2000)}}}, "state")


def test_numbers_of_any_length_come_back() -> None:
    """Breaks if a bit set of 20,000 samples is never saved, because Python reads no decimal of 4,300 digits."""
    bits = (1 << 20_000) + 5
    value = {"seen": bits, "negative": -bits, "list": [1, bits], "least": -(2**63), "most": 2**63}
    assert round_trip(value) == value
    walk = RepeatedWalk()
    for state in ({"x": [1, 2], "y": 1}, {"x": [1, 3], "y": 1}, {"x": [1, bits], "y": bits}, {"x": [bits, 4], "y": 5}):
        assert walk.walk(state)[1] == Walk().tree(state, "")


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"below": value}
    return value


def test_a_deep_state_comes_back_or_is_refused_by_name() -> None:
    """Breaks if a linked list is followed until Python's stack ends, in the program or in its writer process."""
    assert round_trip(nested(99)) == nested(99)
    itself: dict[str, Any] = {}
    itself["next"] = [itself]
    for value in (itself, nested(100_000)):
        with pytest.raises(StateError, match=r"^state/x/.* is in 100 containers, one in another"):
            Walk().tree({"x": value}, "state")


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([object()]), torch.eye(2).to_sparse(), range(3)])
def test_what_cannot_be_held_is_named(value: Any) -> None:
    with pytest.raises(StateError, match="state/x/1 is a"):
        Walk().tree({"x": [0, value]}, "state")


@pytest.mark.parametrize("tree", [{"$new": 1}, {}, {"$dict": [[1]]}, {"$tensor": 5}, {"$dict": [1]}])
def test_trees_of_another_kind_are_refused(tree: Tree) -> None:
    with pytest.raises(StateError):
        unpack(tree, {}, lambda entry, scalar: entry)


def manifest() -> Manifest:
    return Manifest(
        CheckpointName(7, 1, "0"),
        7,
        1,
        "u",
        "t",
        {"python": "3"},
        {},
        {},
        (Part("k", 3, 2, ("1", "2")),),
        (),
        {"$dict": [["a", 1]]},
        (None,),
    )


def test_every_changed_byte_of_a_manifest_is_found() -> None:
    data = encode(manifest())
    assert decode(data) == manifest()
    for place in range(len(data)):
        for bit in (1, 32):
            changed = bytearray(data)
            changed[place] ^= bit
            with pytest.raises(CheckpointCorruptError):
                decode(bytes(changed))


def test_every_changed_byte_of_data_is_found() -> None:
    data = bytes(range(100))
    part = Part("k", 100, 30, chunk_sums(data, 30))
    check_chunks(part, 0, data)
    for place in range(100):
        changed = bytearray(data)
        changed[place] ^= 4
        with pytest.raises(CheckpointCorruptError, match=f"chunk {place // 30}"):
            check_chunks(part, 0, bytes(changed))
    with pytest.raises(CheckpointCorruptError, match="chunk 3"):
        check_chunks(part, 3, data[90:99])


def test_nothing_but_the_language_model_needs_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['numpy'] = None\n"
        "import holdfast_train, holdfast_train.examples.stub, holdfast_train.pod.init_container\n"
        "import holdfast_train.pod.loader_workers, holdfast_train.storage.s3"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_leaf_keeps_the_memory_that_its_tensor_had() -> None:
    """Breaks if a program that gives its tensor other memory while it is copied tears a checkpoint."""
    tensor, walk = torch.ones(4), Walk()
    walk.tree({"x": tensor}, "")
    tensor.data = torch.zeros(4)
    assert walk.leaves[0].value.tolist() == [1.0] * 4


class Words(str):
    __slots__ = ()


class Pair(NamedTuple):
    one: int
    two: int


# Breaks if a program gets a dict for its Counter after a resume: it fails there, hours later.
@pytest.mark.parametrize(
    "value",
    [
        OrderedDict(b=1, a=torch.ones(2)),
        Counter("aab"),
        defaultdict(int, a=1),
        defaultdict(list, a=[1]),
        torch.Size([1, 2]),
        np.str_("word"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_types_come_back_as_they_were(value: Any) -> None:
    found = round_trip({"x": value})["x"]
    assert type(found) is type(value)
    assert getattr(found, "default_factory", None) is getattr(value, "default_factory", None)
    assert list(found) == list(value)


# Breaks if such a value comes back as a tuple, a string or bytes, without a word.
@pytest.mark.parametrize(
    "value",
    [
        Pair(1, 2),
        Words("a"),
        bytearray(b"a"),
        deque([1]),
        {1},
        defaultdict(lambda: 1),
        np.matrix([[1, 2]]),
        np.ma.array([1.0], mask=[True]),
        np.zeros(2, "i4,i4").view(np.recarray),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_whose_type_would_change_is_refused_by_name(value: Any) -> None:
    with pytest.raises(StateError, match=f"^state/x is a {type(value).__name__}"):
        Walk().tree({"x": value}, "state")


# Breaks if a second walk over the state takes a mapping of another type for the one before.
def test_a_mapping_that_changes_its_type_is_walked_again() -> None:
    walk = RepeatedWalk()
    for value in ({"a": 1}, OrderedDict(a=1), OrderedDict(a=2), {"a": 2}):
        assert walk.walk({"x": value})[1] == Walk().tree({"x": value}, "")


def test_a_container_that_grows_while_it_is_walked_is_saved_as_it_was() -> None:
    """Breaks if a thread of the program that adds items ends the training in a save."""
    state: dict[str, Any] = {"first": 1, "second": 2}
    rows: list[Any] = [1, 2]

    class Adding(Walk):
        def _below(self, path: str, key: Any) -> str:
            state[f"more {len(state)}"] = 0
            rows.append(0)
            return super()._below(path, key)

    assert Adding().tree({"state": state, "rows": rows}, "x") == {
        "$dict": [["state", {"$dict": [["first", 1], ["second", 2], ["more 2", 0]]}], ["rows", [1, 2, *[0] * 5]]]
    }
