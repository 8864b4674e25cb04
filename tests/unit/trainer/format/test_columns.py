"""Containers of many small values: columns in one byte string, and back as they were."""

import json
import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.trainer.stores import packed, unpacked

from holdfast_train.errors import StateError
from holdfast_train.format import columns
from holdfast_train.format.manifest import Manifest, encode
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.tree import COLUMNS, Walk


def form(value: Any) -> Any:
    """All that a program can see of a value: 1 is not True, and -0.0 is not 0.0."""
    if isinstance(value, np.ndarray | np.generic):
        return type(value), value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, torch.Tensor):
        return (
            type(value),
            value.dtype,
            tuple(value.shape),
            value.detach().resolve_conj().resolve_neg().numpy().tobytes(),
        )
    if isinstance(value, list | tuple):
        return type(value), [form(item) for item in value]
    if isinstance(value, dict):
        return type(value), getattr(value, "default_factory", None), [(form(k), form(v)) for k, v in value.items()]
    return type(value), struct.pack("d", value) if isinstance(value, float) else repr(value)


def there_and_back(value: Any) -> Any:
    data = columns.encode(value)
    assert data is not None
    return columns.decode(data)


def array(number: int, size: int = 4) -> Any:
    return np.arange(number, number + size, dtype="f4")


def transition(number: int) -> dict[str, Any]:
    return {"obs": array(number), "action": number % 3, "reward": number / 3, "next": array(number + 1), "end": False}


# Containers of `count` arrays or so, each with a few bytes.
MANY: dict[str, Callable[[int], Any]] = {
    "arrays": lambda count: [array(n) for n in range(count)],
    "a tuple of arrays": lambda count: tuple(array(n) for n in range(count)),
    "the items of a deque": lambda count: list(deque(map(array, range(count)), maxlen=count)),
    "dicts with the same keys": lambda count: [transition(n) for n in range(count // 2)],
    "tuples": lambda count: [tuple(transition(n).values()) for n in range(count // 2)],
    "arrays by number": lambda count: {n: array(n) for n in range(count)},
    "arrays by name": lambda count: OrderedDict((f"image-{n}.jpg", array(n)) for n in range(count)),
    "arrays of other lengths": lambda count: [array(n, n % 60) for n in range(count)],
    "arrays of as many shapes": lambda count: [np.zeros((n // 40, n % 40), "i1") for n in range(count)],
    "some large arrays among them": lambda count: [array(n, 5000 if n % 100 == 7 else 4) for n in range(count)],
    "arrays of many types": lambda count: [
        np.ones(3).astype(("f4", ">i4", "U3", "M8[s]", "?", "c16")[n % 6]) for n in range(count)
    ],
    "episodes": lambda count: [[transition(n) for n in range(length % 7)] for length in range(count // 5)],
    "tensors": lambda count: [(torch.full((2,), float(n)), torch.tensor(n)) for n in range(count // 2)],
    "dicts of tensors": lambda count: [{"x": torch.zeros(n % 5, 2, dtype=torch.float16)} for n in range(count)],
    "dicts with other keys": lambda count: [{"obs": array(n), f"info {n % 900}": None} for n in range(count)],
    "numbers": lambda count: [n * 0.5 for n in range(count * 16)],
    "NumPy scalars": lambda count: [np.float32(n) for n in range(count * 16)],
    "words": lambda count: {n: f"wörd {n}" for n in range(count * 16)},
    "losses of each sample": lambda count: {f"{n}.jpg": [n, 0.5] for n in range(count * 8)},
}


@pytest.mark.parametrize("name", MANY)
def test_they_come_back_as_they_were(name: str) -> None:
    value = MANY[name](1200)
    assert form(there_and_back(value)) == form(value)


@pytest.mark.parametrize("name", MANY)
def test_the_manifest_does_not_grow_with_them(name: str) -> None:
    """Breaks if a save makes a record for each array: it was larger than the data, and training waited for seconds."""
    manifests, sizes = [], []
    for count in (1200, 4800):
        tree, tensors, data = packed({"buffer": MANY[name](count)})
        assert [(entry.name, entry.kind) for entry in tensors] == [("state/buffer", "bytes")]
        made = Manifest(CheckpointName(1, 1, "0"), 1, 1, "u", "t", {}, {}, {}, (), tensors, tree, ())
        manifests.append(len(encode(made)))
        sizes.append(len(data))
    assert manifests[0] <= 0.05 * sizes[0]
    assert manifests[1] <= manifests[0] + 10  # digits of a size
    text = columns.encode(MANY[name](4800))
    assert text is not None
    assert struct.unpack_from("<Q", text)[0] < 2000  # the description of the columns


plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(width=64)
    | st.text(st.characters())
    | st.binary()
)
dtypes = st.sampled_from(["f4", ">f8", "i8", "u1", "?", "c8", "U2", "M8[s]"])
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
scalars = st.sampled_from([np.float32(0.5), np.int8(-3), np.bool_(True), np.complex64(1j), np.float64(-0.0)])
tensors = arrays.filter(lambda found: found.dtype.kind in "fi" and found.dtype.isnative).map(torch.from_numpy)
keys = st.text(max_size=2) | st.integers(-2, 2) | st.booleans() | st.floats(-1, 1) | st.tuples(st.integers(0, 1))
small = st.recursive(
    plain | arrays | scalars | tensors,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=3).map(OrderedDict)
        | st.dictionaries(keys, inner, max_size=3).map(lambda found: defaultdict(list, found))
        | st.dictionaries(keys, st.integers(), max_size=3).map(Counter)
    ),
    max_leaves=25,
)


@given(st.lists(small, min_size=1, max_size=12), st.booleans())
def test_all_kinds_of_values_come_back_as_they_were(items: list[Any], twice: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, least in (("FEW", 0), ("MANY", 0), ("SMALL_BYTES", 1 << 30)):
            patch.setattr(columns, name, least)
        value = [*items, *items] if twice else items  # the same object in two places
        assert form(there_and_back(value)) == form(value)
        tree, entries, data = packed({"x": value})
        assert form(unpacked(tree, entries, data)) == form({"x": value})


def test_bits_of_floats_and_order_of_keys() -> None:
    value = [math.nan, -math.nan, math.inf, -0.0, 5e-324, {"b": 1, "a": 2}, {"a": 1, "b": 2}, {1: 0}, {True: 0}]
    assert form(there_and_back(value * 2000)) == form(value * 2000)


def freed() -> torch.Tensor:
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


def few(kind: Callable[[Any], Any], count: int, value: Callable[[int], Any] = array) -> Any:
    return kind(value(number) for number in range(count))


# A container, and whether it becomes columns.
BOUNDS = [
    ("1,000 arrays", few(list, 1000), True),
    ("999 arrays", few(list, 999), False),
    ("16,000 numbers", few(list, 16_000, float), True),
    ("15,999 numbers", few(list, 15_999, float), False),
    ("500 arrays and 8,000 numbers", [*few(list, 500), *range(8000)], True),
    ("16 lists of arrays", [few(list, 63) for _ in range(16)], True),
    ("15 lists of arrays", [few(list, 80) for _ in range(15)], False),
    ("16 numbers with lists of arrays", {n: few(list, 63) for n in range(16)}, True),
    ("999 names with arrays", {f"{n}": few(list, 2) for n in range(999)}, False),
    ("1,000 names with arrays", {f"{n}": array(n) for n in range(1000)}, True),
    ("arrays of 4 KiB", few(list, 1000, lambda n: array(n, 1024)), True),
    ("larger arrays", few(list, 1000, lambda n: array(n, 1025)), False),
    ("a state by parameter", {n: {"mean": torch.zeros(2), "step": 1} for n in range(1000)}, False),
    ("a list of tensors by name", few(list, 1000, lambda n: {"mean": torch.zeros(2)}), True),
    ("parameters", few(list, 1000, lambda n: torch.nn.Parameter(torch.zeros(2))), False),
    ("tensors of 8 bits", few(list, 1000, lambda n: torch.zeros(2).to(torch.float8_e5m2)), False),
    ("a shape among them", [*few(list, 1000), torch.Size([1])], False),
    ("a type of torch among them", [*few(list, 1000), torch.float16], False),
    ("tensors whose memory was freed", [*few(list, 1000, lambda n: torch.ones(2)), freed()], False),
    ("33 levels", [few(list, 1000), json.loads("[" * 32 + "]" * 32)], False),
]


@pytest.mark.parametrize(("value", "expected"), [case[1:] for case in BOUNDS], ids=[case[0] for case in BOUNDS])
def test_which_containers_become_columns(value: Any, expected: bool) -> None:
    """Breaks if the state of a model loses its names, or if arrays are copied twice that are large."""
    if type(value) is list and len(value) == 2:
        value = value * 8
    assert (columns.encode(value) is not None) is expected


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (object(), "is a object; allowed"),
        (deque([1]), "is a deque; allowed"),
        (np.array([object()]), "is a NumPy array of Python objects"),
        (np.ma.array([1.0], mask=[True]), "is a MaskedArray; allowed"),
        (np.zeros(2, "i4,i4"), "is a NumPy array of"),
        (torch.eye(2).to_sparse(), "is a torch.sparse_coo tensor"),
        (torch.ones(3, device="meta"), "is a tensor without values"),
        (torch.nested.nested_tensor([torch.ones(2)]), "is a nested tensor"),
    ],
)
def test_what_a_checkpoint_cannot_contain_is_named_by_its_place(wrong: Any, words: str) -> None:
    with pytest.raises(StateError, match=f"^state/x/1200/1 {words}"):
        Walk().tree({"x": [*few(list, 1200), [0, wrong]]}, "state")


def test_values_that_have_to_be_leaves_stay_leaves_with_their_names() -> None:
    walk, weight = Walk(), torch.nn.Parameter(torch.ones(3))
    tree: Any = walk.tree({"x": [few(list, 1200), *[weight] * 16]}, "state")
    assert [leaf.name for leaf in walk.leaves] == ["state/x/0", "state/x/1"]
    assert walk.leaves[1].value.data_ptr() == weight.data_ptr()
    assert dict(tree["$dict"])["x"][0] == {"$tensor": "state/x/0", COLUMNS: True}


def test_views_are_saved_by_their_values() -> None:
    """Breaks if memory is saved in place of values."""
    number, base = torch.tensor([1 + 2j, 3 - 4j]), np.arange(12).reshape(3, 4)
    for view in (number.conj(), number.conj().imag, torch.arange(6).reshape(2, 3).t(), base.T, base[::2, ::-1]):
        assert form(there_and_back([view] * 1000)) == form([view] * 1000)


def test_each_array_has_memory_of_its_own() -> None:
    """Breaks if one old item keeps a whole buffer in memory, or if a change of one changes another."""
    back = there_and_back([item for n in range(1000) for item in (array(n), torch.ones(2, requires_grad=True))])
    assert all(found.base is None and found.flags.writeable for found in back[::2])
    assert {found.untyped_storage().nbytes() for found in back[1::2]} == {8}
    back[0][:] = 7
    back[1].add_(1)
    assert (back[2].tolist(), back[3].tolist()) == ([1, 2, 3, 4], [1, 1])


def test_an_item_in_several_places_is_one_item_again() -> None:
    """Breaks if frames that four observations share take four times their memory after a resume."""
    frames = [np.full(200, n, "u2") for n in range(1203)]
    info: dict[str, Any] = {"lives": 3}
    value = [{"obs": frames[n : n + 4], "next": frames[n + 1 : n + 5], "info": info} for n in range(1199)]
    data = columns.encode(value)
    assert data is not None
    assert len(data) < 1.1 * 400 * 1203
    back = columns.decode(data)
    assert form(back) == form(value)
    assert back[0]["obs"][1] is back[1]["obs"][0] is back[0]["next"][0]
    assert len({id(row["info"]) for row in back}) == 1


def test_small_tensors_and_arrays_lie_in_memory_as_they_did() -> None:
    base = np.arange(12.0).reshape(3, 4)
    values = [base.T, base, torch.from_numpy(base).t(), torch.from_numpy(base)[:, ::2], base[0, :0]] * 300
    back = there_and_back([*values, torch.ones(3, 1).t()])
    assert form(back) == form([*values, torch.ones(3, 1).t()])
    assert (back[0].strides, back[1].strides) == (base.T.strides, base.strides)
    assert (back[2].stride(), back[3].stride(), back[-1].stride()) == ((1, 4), (2, 1), (1, 1))


def test_a_container_within_itself_is_not_followed() -> None:
    """Breaks if it fills the memory of the pod: 16 items at the first level are 268 million at the seventh."""
    value: list[Any] = []
    value.extend([value] * 16)
    assert columns.encode(value) is None
    assert columns.encode([({"x": value},)] * 16) is None


def test_what_changes_in_another_thread_does_not_move_values() -> None:
    """Breaks if an item that came after the lengths were taken shifts all values behind it."""
    with pytest.raises(columns._OtherError):
        columns._joined([[1, 2], [3]], [1, 1])


def described(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(8),
        struct.pack("<Q", 1 << 40),
        described("[]"),
        described('[["new"],[0]]'),
        described('[["int"],[]]'),
        described('[["int"],[8]]'),
        described('[["list",2,["none"]],[]]')[:-1],
        described('[["mapping","set",1,0,["tuple",0,["none"]],["none"]],[]]'),
        described('[["torch","float32",1,0,["tuple",0,["none"]]],[0]]'),
    ],
)
def test_columns_of_another_form_are_refused(data: bytes) -> None:
    with pytest.raises(StateError, match="a newer holdfast-train"):
        columns.decode(data)
