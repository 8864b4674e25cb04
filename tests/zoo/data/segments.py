"""Make images and the squares in them for nnU-Net: segments.py FOLDER."""

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

folder = Path(sys.argv[1]) / "Dataset001_Squares"
random = np.random.default_rng(1)
for part in ("imagesTr", "labelsTr"):
    (folder / part).mkdir(parents=True)
for number in range(10):
    pixels = random.integers(0, 100, size=(64, 64), dtype=np.uint8)
    left, top = random.integers(4, 40, size=2)
    truth = np.zeros((64, 64), dtype=np.uint8)
    truth[top : top + 16, left : left + 16] = 1
    Image.fromarray(pixels + 100 * truth).save(folder / "imagesTr" / f"case_{number:03}_0000.png")
    Image.fromarray(truth).save(folder / "labelsTr" / f"case_{number:03}.png")
about = {"channel_names": {"0": "grey"}, "labels": {"background": 0, "square": 1}, "numTraining": 10}
(folder / "dataset.json").write_text(json.dumps({**about, "file_ending": ".png"}))
