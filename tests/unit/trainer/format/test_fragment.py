"""A rank's share of a manifest."""

import pytest

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.format.fragment import Fragment
from holdfast_train.format.manifest import Part
from holdfast_train.format.tree import Shard, TensorEntry


def test_it_comes_back_as_it_was_written() -> None:
    shard = Shard(64, 8, (2,), (2,))
    fragment = Fragment(
        rank=1,
        form="abc",
        share=(Part("data/x/r1.0", 10, 4, ("a", "b", "c")),),
        own=(Part("data/x/r1.1", 8, 4, ("d", "e")),),
        tensors=(TensorEntry("w", "torch", "float32", (4,), (shard,)),),
        tree={"$dict": []},
    )
    assert Fragment.decode(fragment.encode()) == fragment
    assert Fragment.decode(Fragment(2, failed="no space").encode()).failed == "no space"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"rank": "x"}'])
def test_a_damaged_one_is_corrupt(data: bytes) -> None:
    with pytest.raises(CheckpointCorruptError, match="a rank's part of the checkpoint cannot be read"):
        Fragment.decode(data)
