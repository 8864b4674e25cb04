"""PNG without Pillow, read by Pillow."""

import io

import numpy as np
import pytest
from PIL import Image

from holdfast_train.evaluation.png import as_png


@pytest.mark.parametrize("channels", [1, 3])
def test_pillow_reads_the_same_picture(channels: int) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, channels), np.uint8)
    with Image.open(io.BytesIO(as_png(picture))) as image:
        assert np.array_equal(np.asarray(image).reshape(picture.shape), picture)
