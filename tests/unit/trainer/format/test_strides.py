"""Strides of tensors and arrays that do not lie in memory row by row."""

import numpy as np
import pytest
import torch

from holdfast_train.errors import StateError
from holdfast_train.format.strides import Strides, of_array, of_tensor, with_strides

SHAPES = {
    "channels_last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "channels_last, one channel": torch.rand(2, 1, 4, 5).to(memory_format=torch.channels_last),
    "transposed": torch.rand(3, 4).t(),
    "each second row": torch.rand(6, 4)[::2],
    "expanded": torch.rand(3, 1).expand(3, 4),
    "permuted": torch.rand(2, 3, 4).permute(2, 0, 1),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_what_a_save_notes_is_accepted(kind: str) -> None:
    tensor = SHAPES[kind]
    strides = of_tensor(tensor) or tuple(tensor.contiguous().stride())
    back = with_strides(tensor.contiguous(), strides)
    assert back.stride() == strides
    assert torch.equal(back, tensor)
    array = tensor.numpy()
    noted = of_array(array)
    if noted is not None:
        again = with_strides(np.ascontiguousarray(array), noted)
        assert np.array_equal(again, array)
        assert of_array(again) == noted


@pytest.mark.parametrize("strides", [(1, 1 << 40), (4, 2), (0, 1), (-3, 1), (1,), (3, 1, 1)], ids=str)
@pytest.mark.parametrize("values", [torch.zeros(2, 3), np.zeros((2, 3))], ids=["torch", "numpy"])
def test_a_damaged_checkpoint_asks_for_no_more_memory(values: object, strides: Strides) -> None:
    with pytest.raises(StateError, match=r"shape \[2, 3\] with the strides"):
        with_strides(values, strides)
