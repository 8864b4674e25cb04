"""Make images with boxes for Ultralytics: images.py FOLDER."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

folder = Path(sys.argv[1]).absolute()
random = np.random.default_rng(1)
for part, count in (("train", 48), ("val", 8)):
    (folder / "images" / part).mkdir(parents=True)
    (folder / "labels" / part).mkdir(parents=True)
    for number in range(count):
        pixels = random.integers(0, 60, size=(64, 64, 3), dtype=np.uint8)
        left, top = random.integers(4, 30, size=2)
        pixels[top : top + 24, left : left + 24, number % 2] = 230
        Image.fromarray(pixels).save(folder / "images" / part / f"{number}.png")
        box = f"{number % 2} {(left + 12) / 64} {(top + 12) / 64} {24 / 64} {24 / 64}\n"
        (folder / "labels" / part / f"{number}.txt").write_text(box)
(folder / "data.yaml").write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: [red, green]\n")
