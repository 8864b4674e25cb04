"""Data for the vision transformer: pictures made here, or any folder with one folder of pictures for each class.

python -m holdfast_train.examples.images new.npz --count 400 --noise 2.5    pictures that no training has seen
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import torch
from torch import Tensor


class Pictures(Protocol):
    """Pictures of shape (3, size, size) with the number of their class."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> tuple[Tensor, int]: ...


NEW: Final = 2_000_000
"""Number of the first of the pictures that `main` makes: `open_images` makes none from here on."""
SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".bmp", ".webp")


class Gratings:
    """Stripes under noise. The class is their direction; width, phase, colour and noise are random.

    A picture depends on its number alone, so each process makes the same ones. `begin`: the number of the first one.
    """

    def __init__(self, count: int, *, size: int = 32, classes: int = 10, noise: float = 1.5, begin: int = 0) -> None:
        self._count, self._size, self._noise, self._begin = count, size, noise, begin
        self.classes = tuple(f"{round(180 * number / classes)} degrees" for number in range(classes))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        random = torch.Generator().manual_seed(self._begin + index)
        label = int(torch.randint(len(self.classes), (), generator=random))
        width, phase, *colour = torch.rand(5, generator=random).tolist()
        angle = math.pi * label / len(self.classes)
        axis = torch.arange(self._size, dtype=torch.float32)
        place = axis[:, None] * math.sin(angle) + axis[None, :] * math.cos(angle)
        stripes = torch.sin(place * (0.5 + width) + phase * 2 * math.pi)
        picture = stripes * (0.5 + torch.tensor(colour))[:, None, None]  # (3, size, size)
        return picture + self._noise * torch.randn(picture.shape, generator=random), label


class Folder:
    """The pictures below `root`: each folder is a class. Values are -1 to 1. Needs Pillow.

    ValueError if there are no pictures, or other classes than `classes`.
    """

    def __init__(self, root: Path, *, size: int = 32, classes: tuple[str, ...] | None = None) -> None:
        found = sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
        self.classes = classes or tuple(found)
        if more := [name for name in found if name not in self.classes]:
            raise ValueError(f"{root} has the class {more[0]!r}, which the training data lacks")
        self._size = size
        self._files = [
            (file, label)
            for label, name in enumerate(self.classes)
            for file in sorted((root / name).rglob("*"))
            if file.suffix.lower() in SUFFIXES
        ]
        if not self._files:
            raise ValueError(f"{root} has no pictures; expected a folder for each class, with {', '.join(SUFFIXES)}")

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image  # noqa: PLC0415 - only pictures in files need it

        file, label = self._files[index]
        with Image.open(file) as image:
            small = image.convert("RGB").resize((self._size, self._size))
            values = torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8)
        return values.view(self._size, self._size, 3).permute(2, 0, 1) / 127.5 - 1, label


def open_images(data: str | None, size: int) -> tuple[Pictures, Pictures, tuple[str, ...]]:
    """Training data, test data and the names of the classes: of the folders `data`/train and /test, or made here."""
    if data is None:
        made = Gratings(20_000, size=size)
        return made, Gratings(1_000, size=size, begin=1_000_000), made.classes
    train = Folder(Path(data, "train"), size=size)
    return train, Folder(Path(data, "test"), size=size, classes=train.classes), train.classes


def main(argv: Sequence[str] | None = None) -> int:
    """Write new pictures with their labels into a file of NumPy, for `holdfast-train evaluate --data`."""
    parser = argparse.ArgumentParser(
        prog="python -m holdfast_train.examples.images",
        description="Write pictures with their labels that no training has seen.",
    )
    parser.add_argument("file", type=Path, help="new file, such as new.npz")
    parser.add_argument("--count", type=int, default=400, help="number of pictures (default 400)")
    parser.add_argument("--image", type=int, default=32, help="side of a picture in pixels (default 32)")
    parser.add_argument("--noise", type=float, default=1.5, help="as in training (default 1.5), or more")
    options = parser.parse_args(argv)
    if options.count < 1 or options.image < 1:
        parser.error("--count and --image must be at least 1")
    if options.file.suffix != ".npz":
        parser.error(f"{options.file} must end in .npz")
    made = Gratings(options.count, size=options.image, noise=options.noise, begin=NEW)
    images, labels = zip(*(made[number] for number in range(options.count)), strict=True)
    try:
        with options.file.open("xb") as file:  # never over a file that is there
            np.savez(file, images=torch.stack(images).numpy(), labels=np.array(labels))
    except OSError as error:
        parser.error(f"{options.file} cannot be written: {error.strerror or error}")
    sys.stdout.write(f"{options.count:,} pictures of {len(made.classes)} classes in {options.file}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
