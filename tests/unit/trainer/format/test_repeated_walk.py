"""A walk that uses what the one before has found: the result is that of a new walk, always."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from holdfast_train.errors import StateError
from holdfast_train.format.repeated_walk import RepeatedWalk
from holdfast_train.format.tree import Leaf, Tree, Walk, delta, patched


def forms(leaves: list[Leaf]) -> list[Any]:
    """Everything about the leaves, with the address and the bytes of each."""
    found: list[Any] = []
    for leaf in leaves:
        value = leaf.value
        if leaf.kind == "torch":
            value = (value.data_ptr(), value.stride(), value.reshape(-1).contiguous().view(torch.uint8).tolist())
        else:
            value = bytes(value)
        found.append((*leaf[:5], value, leaf.box))
    return found


def check(repeated_walk: RepeatedWalk, state: Any) -> Any:
    """The tree of `state`, after a comparison with a new walk."""
    wanted = Walk()
    tree = wanted.tree(state, "")
    walk, found = repeated_walk.walk(state)
    assert found == tree
    assert repr(found) == repr(tree)  # 1 is not True, and 0.0 is not -0.0
    assert forms(walk.leaves) == forms(wanted.leaves)
    return found


def state() -> dict[Any, Any]:
    weight, order = torch.arange(6.0).reshape(2, 3), np.arange(5)
    return {
        "model": OrderedDict(weight=weight, tied=weight, bias=torch.zeros(2, dtype=torch.bfloat16)),
        "optimizer": {
            "state": {number: {"step": torch.tensor(1.0), "mean": torch.ones(3) * number} for number in range(3)},
            "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1, 2], "foreach": None, "fused": False}],
        },
        "data": {"order": order, "same order": order, "scalar": np.float32(2.0), "text": "a", 3: -0.0, "seen": 1000},
        "blob": {"small": b"x" * 10, "large": b"y" * 5000, "dtype": torch.float16, "nan": float("nan")},
        "empty": [torch.zeros(0), [], {}, ()],
        "buffer": [(np.full(2, number),) for number in range(1000)],
    }


def replaced(values: dict[Any, Any], key: str, value: Any) -> None:
    values[key] = value


VALUES: list[Callable[[Any], Any]] = [
    lambda s: None,
    lambda s: s["model"]["weight"].add_(1),
    lambda s: s["model"].update(bias=s["model"]["bias"].detach()),  # as `state_dict()` of a module returns it
    lambda s: s["optimizer"]["state"][1]["mean"].mul_(3),
    lambda s: replaced(s["optimizer"]["param_groups"][0], "lr", 0.2),
    lambda s: replaced(s["optimizer"]["param_groups"][0], "betas", (0.8, 0.999)),
    lambda s: replaced(s["optimizer"]["param_groups"][0], "params", [0, 2, 1]),
    lambda s: replaced(s["optimizer"]["param_groups"][0], "params", [0, True, 2]),
    lambda s: replaced(s["optimizer"]["param_groups"][0], "fused", 0),
    lambda s: s["data"].update(dict.fromkeys(("order", "same order"), np.arange(5) * 2)),
    lambda s: replaced(s["data"], "text", "b"),
    lambda s: replaced(s["data"], "seen", 1001),
    lambda s: s["data"].update({3: 0.0}),
    lambda s: replaced(s["blob"], "small", b"z" * 10),
    lambda s: replaced(s["blob"], "large", b"z" * 5000),
    lambda s: replaced(s["blob"], "dtype", torch.float32),
    lambda s: replaced(s["blob"], "large", b"z" * 6000),
    lambda s: s["buffer"][7][0].fill(3),
    lambda s: s["buffer"].append((np.full(3, 1.5), None)),
    lambda s: replaced(s, "buffer", tuple(s["buffer"])),
    lambda s: replaced(s, "buffer", dict.fromkeys(range(1000), np.ones(3))),
]


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_what_only_values_change_is_used_again(number: int) -> None:
    """Breaks if a save has other names, values or bytes than the state, or if training waits for a new walk."""
    repeated_walk, now = RepeatedWalk(), state()
    first = check(repeated_walk, now)
    assert not repeated_walk.is_again
    for _ in range(2):
        VALUES[number](now)
        again = check(repeated_walk, now)
        assert repeated_walk.is_again
    whole = dict(again["$dict"])
    before = dict(first["$dict"])
    assert whole["model"] is before["model"]
    assert patched(first, delta(first, again)) == again


def untied(s: Any) -> None:
    s["model"]["weight"] = s["model"]["weight"].clone()


def moved(s: Any) -> None:
    """The storage gets other memory; the tensor stays the same."""
    address = s["model"]["weight"].data_ptr()
    s["model"]["weight"].untyped_storage().resize_(4 << 20)
    assert s["model"]["weight"].data_ptr() != address


OTHERWISE: list[Callable[[Any], Any]] = [
    untied,
    moved,
    lambda s: replaced(s["model"], "bias", s["model"]["bias"].clone()),
    lambda s: replaced(s["model"], "bias", s["model"]["bias"].view(torch.int16)),
    lambda s: replaced(s["model"], "weight", s["model"]["weight"].T),
    lambda s: replaced(s["model"], "tied", torch.ones(2)),
    lambda s: replaced(s["model"], "bias", s["model"]["weight"]),  # tied now
    lambda s: replaced(s["model"], "bias", 1.0),
    lambda s: replaced(s["model"], "new", torch.ones(1)),
    lambda s: s["model"].pop("bias"),
    lambda s: s["model"].move_to_end("weight"),
    lambda s: replaced(s["optimizer"]["param_groups"][0], "lr", torch.tensor(0.1)),
    lambda s: replaced(s["optimizer"]["param_groups"][0], "betas", [0.9, 0.999]),
    lambda s: replaced(s["optimizer"]["param_groups"][0], "params", [0, 1]),
    lambda s: replaced(s["optimizer"], "state", {str(k): v for k, v in s["optimizer"]["state"].items()}),
    lambda s: replaced(s, "data", {3.0 if key == 3 else key: value for key, value in s["data"].items()}),
    lambda s: replaced(s["data"], "order", np.arange(6)),
    lambda s: replaced(s["data"], "order", np.arange(5)),  # no longer the same array
    lambda s: replaced(s["data"], "same order", np.arange(5)),
    lambda s: s["empty"].__setitem__(2, s["data"]["order"]),
    lambda s: replaced(s["optimizer"]["state"][1], "mean", torch.ones(2, 3).t()),
    lambda s: replaced(s["data"], "order", np.float32(1.0)),
    lambda s: replaced(s["blob"], "nan", 1.0),
    lambda s: setattr(s["model"], "_metadata", {"": {"version": 2}}),
    lambda s: replaced(s["blob"], "large", b"y"),
    lambda s: s["empty"].__setitem__(1, [torch.ones(1)]),
    lambda s: s["buffer"].pop(),  # too few for columns
    lambda s: s["buffer"].append(torch.float32),  # not for columns
    lambda s: replaced(s, "buffer", b"x" * 5000),
    lambda s: replaced(s, "buffer", None),
]


@pytest.mark.parametrize("number", range(len(OTHERWISE)))
def test_any_other_change_is_walked_anew(number: int) -> None:
    """Breaks if a tensor is saved under the name, with the type or with the bytes of another one."""
    repeated_walk, now = RepeatedWalk(), state()
    check(repeated_walk, now)
    check(repeated_walk, now)
    OTHERWISE[number](now)
    check(repeated_walk, now)
    assert not repeated_walk.is_again
    check(repeated_walk, now)
    assert repeated_walk.is_again


def test_columns_are_not_kept_until_the_next_walk() -> None:
    """Breaks if a buffer is in memory three times between two saves: as it is, in the arena, and as columns."""
    repeated_walk, now = RepeatedWalk(), state()
    for _ in range(2):
        leaves = repeated_walk.walk(now)[0].leaves
        assert {type(leaf.value) for leaf in leaves if leaf.kind == "bytes"} == {bytes, bytearray}
        assert [leaf.value for leaf in repeated_walk._leaves if leaf.kind == "bytes"] == [None, None]


def test_a_state_that_always_changes_is_remembered_no_more() -> None:
    """Breaks if a program that replaces a tensor in each step waits longer than for a new walk alone."""
    repeated_walk, now = RepeatedWalk(), state()
    check(repeated_walk, now)
    for _ in range(2):
        assert repeated_walk._places
        now["model"]["bias"] = now["model"]["bias"].clone()
        check(repeated_walk, now)
    for _ in range(3):
        assert not repeated_walk._places
        check(repeated_walk, now)
    assert not repeated_walk.is_again


def test_a_state_that_changes_now_and_then_is_remembered() -> None:
    repeated_walk, now = RepeatedWalk(), state()
    check(repeated_walk, now)
    for _ in range(4):
        now["model"]["bias"] = now["model"]["bias"].clone()
        check(repeated_walk, now)
        check(repeated_walk, now)
        assert repeated_walk.is_again


def test_negative_and_conjugate_views_of_the_same_memory_are_walked_anew() -> None:
    """Breaks if their bytes are saved as they lie in memory."""
    value = torch.ones(3, dtype=torch.complex64) * 1j
    for plain, view in ((value, value.conj()), (value.imag, value.conj().imag)):
        assert plain.data_ptr() == view.data_ptr()
        repeated_walk = RepeatedWalk()
        repeated_walk.walk({"x": plain})
        for _ in range(2):
            (leaf,) = repeated_walk.walk({"x": view})[0].leaves
            assert not repeated_walk.is_again
            assert leaf.value.numpy().tobytes() == view.resolve_conj().resolve_neg().numpy().tobytes()


def test_a_leaf_counts_the_changes_of_the_tensor_that_the_state_has_now() -> None:
    """Breaks if a change during the copy is not noticed: a new parameter over the same memory has its own counter."""
    repeated_walk, value = RepeatedWalk(), torch.zeros(3)
    for tensor in (value, value, value.data, value.data):  # `data` has another counter over the same memory
        (leaf,) = repeated_walk.walk({"x": tensor})[0].leaves
        before = leaf.value._version
        tensor.add_(1)
        assert leaf.value._version == before + 1
    assert repeated_walk.is_again


def test_a_walk_goes_on_with_states_that_share_memory_with_the_first() -> None:
    repeated_walk, shared = RepeatedWalk(), torch.ones(3)
    for _ in range(3):
        walk, _ = repeated_walk.walk({"x": shared})
        tree: Any = walk.tree({"x": shared, "y": torch.zeros(2)}, "own")
        assert dict(tree["$dict"])["x"] == {"$tensor": "x"}
        assert [leaf.name for leaf in walk.leaves] == ["x", "own/y"]
        assert walk.tree(torch.zeros(2), "x") == {"$tensor": "x'"}


def test_what_cannot_be_saved_is_named_also_by_a_later_walk() -> None:
    repeated_walk = RepeatedWalk()
    repeated_walk.walk({"x": {"y": 1}})
    with pytest.raises(StateError, match="x/y is a object; allowed"):
        repeated_walk.walk({"x": {"y": object()}})
    with pytest.raises(StateError, match=r"x is a torch\.sparse_coo tensor"):
        repeated_walk.walk({"x": torch.ones(3).to_sparse()})


def test_nothing_is_remembered_after_forget() -> None:
    repeated_walk, value = RepeatedWalk(), torch.ones(3)
    repeated_walk.walk({"x": value})
    repeated_walk.forget()
    repeated_walk.walk({"x": value})
    assert not repeated_walk.is_again


def test_a_delta_is_short_where_objects_are_the_same() -> None:
    same: Tree = {"$dict": [["a", {"$tensor": "a"}]]}
    before: Tree = {"$dict": [["state", same], ["lr", 0.1], ["none", None], ["list", [1, 2]]]}
    after: Tree = {"$dict": [["state", same], ["lr", 0.2], ["none", None], ["list", [1, 2, 3]]]}
    change = delta(before, after)
    assert change["$dict"][0] is ... or change["$dict"][0][1] is ...
    assert patched(before, change) == after
    assert delta(before, before) is ...
    assert patched(before, ...) is before
