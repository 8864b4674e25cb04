"""Pictures in folders of classes, or in a column of Parquet, as inputs of a model. Needs Pillow."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from holdfast_model.census.folder import SPLITS, folder_source
from holdfast_model.census.manifest import Columns
from holdfast_model.census.parquet import parquet_source
from holdfast_model.census.sample import Sample, Seen
from holdfast_model.evaluation.data import Batch, Damage
from holdfast_model.evaluation.errors import EvaluationError
from holdfast_model.evaluation.task import Task

Array = np.ndarray[Any, Any]
SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
FORMATS: Final = ("JPEG", "PNG", "BMP", "WEBP")
MOST_PIXELS: Final = 100_000_000
THREADS: Final = 4


class Layout(NamedTuple):
    """Where channels, height and width are in an input of pictures. `first`: channels come before the others."""

    name: str
    channels: int
    height: int
    width: int
    first: bool


@dataclass
class PictureData:
    """`samples`: each time the same, in the same order. `labels`: their different classes, sorted."""

    place: str
    samples: Callable[[], Iterator[Sample]]
    count: int
    labels: Sequence[str]
    damage: Damage

    def __len__(self) -> int:
        return self.count

    def fit(self, task: Task) -> dict[str, int]:
        """See `Data`."""
        layout_of(task)
        if task.kind != "classes":
            raise EvaluationError(f"{self.place} has pictures, and the model predicts tokens; give it arrays")
        self._numbers(task)
        _scaling(task)
        return {}

    def _numbers(self, task: Task) -> dict[str, int]:
        """Class -> its number. EvaluationError if the model does not know a class."""
        if task.classes:
            number = {name: at for at, name in enumerate(task.classes)}
        elif all(label.isdecimal() for label in self.labels):
            number = {label: int(label) for label in self.labels if int(label) < task.size}
        elif len(self.labels) == task.size:
            number = {label: at for at, label in enumerate(self.labels)}
        else:
            raise EvaluationError(
                f"{self.place} has {len(self.labels)} classes, the model has {task.size}, and the package does not say "
                "their names: give the problem its `classes`, and make the package again"
            )
        if more := [label for label in self.labels if label not in number]:
            hint = ""
            if more[0].lower() in SPLITS:
                hint = f"; name one split, such as {Path(self.place) / more[0]}"
            allowed = ", ".join(list(task.classes)[:10]) if task.classes else f"0 to {task.size - 1}"
            raise EvaluationError(
                f"{self.place} has the class {more[0]!r}, which the model does not know; allowed: {allowed}{hint}"
            )
        return number

    def batches(self, task: Task, size: int) -> Iterator[Batch]:
        """See `Data`."""
        layout, number, scaling = layout_of(task), self._numbers(task), _scaling(task)
        waiting = (sample for sample in self.samples() if sample.name not in self.damage.found)
        with ThreadPoolExecutor(THREADS) as pool:
            while some := list(islice(waiting, size)):
                inputs, labels, names = [], [], []
                for sample, read in zip(some, pool.map(lambda one: _read(one, layout), some), strict=True):
                    if isinstance(read, str):
                        self.damage.add(sample.name, read)
                        continue
                    inputs.append(scaling(read))
                    labels.append(number[sample.label])
                    names.append(sample.name)
                if names:
                    yield Batch({layout.name: np.stack(inputs)}, np.array(labels, np.int64), names)
        self.damage.is_complete = True


def layout_of(task: Task) -> Layout:
    """EvaluationError if the model does not take one picture of a fixed size."""
    if len(task.inputs) == 1:
        name, tensor = next(iter(task.inputs.items()))
        if len(tensor.shape) == 4 and all(isinstance(part, int) for part in tensor.shape[1:]):
            a, b, c = (int(part) for part in tensor.shape[1:])
            if a in (1, 3):
                return Layout(name, a, b, c, first=True)
            if c in (1, 3):
                return Layout(name, c, a, b, first=False)
    shapes = "; ".join(f"{name} {tensor.shape}" for name, tensor in task.inputs.items())
    raise EvaluationError(
        "pictures fit only a model with one input of (samples, 1 or 3 channels, height, width), or with the channels "
        f"last, in numbers; this one has: {shapes}. Give it arrays: a file of .npz or .safetensors"
    )


def _scaling(task: Task) -> Callable[[Array], Array]:
    """What makes an input of bytes."""
    layout, tensor = layout_of(task), next(iter(task.inputs.values()))
    if tensor.dtype == "uint8":
        return lambda picture: picture
    if not tensor.dtype.startswith("float"):
        raise EvaluationError(f"the input {layout.name} has the type {tensor.dtype}; pictures give uint8 or floats")
    if task.pixels is None:
        raise EvaluationError(
            "the package does not say how pixels become numbers: use --mean and --std as in its training; "
            "--mean 0.5 --std 0.5 gives -1 to 1, and --mean 0 --std 1 gives 0 to 1"
        )
    mean, std = _per_channel(task.pixels.mean, layout), _per_channel(task.pixels.std, layout)
    return lambda picture: ((picture / np.float32(255) - mean) / std).astype(tensor.dtype)


def _per_channel(numbers: Sequence[float], layout: Layout) -> Array:
    if len(numbers) not in (1, layout.channels):
        raise EvaluationError(f"--mean or --std has {len(numbers)} numbers for {layout.channels} channel(s)")
    array = np.array(numbers, np.float32)
    return array[:, None, None] if layout.first else array


def as_picture(input_: Array, task: Task) -> Array | None:
    """An input as bytes of (height, width, channels), as the model sees it; None if it is not a picture."""
    try:
        layout = layout_of(task)
    except EvaluationError:
        return None
    if input_.dtype != np.uint8:
        if task.pixels is None:
            return None
        mean, std = _per_channel(task.pixels.mean, layout), _per_channel(task.pixels.std, layout)
        input_ = np.clip((input_.astype(np.float32) * std + mean) * 255, 0, 255).round().astype(np.uint8)
    return input_.transpose(1, 2, 0) if layout.first else input_


def as_png(picture: Array) -> bytes:
    """A file of `picture`, uint8 of (height, width, 1 or 3)."""
    from PIL import Image  # noqa: PLC0415 - an extra

    file = io.BytesIO()
    Image.fromarray(picture.squeeze(2) if picture.shape[2] == 1 else picture).save(file, "PNG", optimize=True)
    return file.getvalue()


def _read(sample: Sample, layout: Layout) -> Array | str:
    """The picture in the model's size, or in words why it cannot be read."""
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - an extra

    try:
        source = io.BytesIO(sample.content) if sample.content is not None else sample.file
        if source is None:
            return "it has no picture"
        with Image.open(source, formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                return f"it has {image.width} x {image.height} pixels; at most {MOST_PIXELS:,} are read"
            small = image.convert("RGB" if layout.channels == 3 else "L").resize((layout.width, layout.height))
    except UnidentifiedImageError:
        return f"it is not a picture of {', '.join(FORMATS)}"
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError, Image.DecompressionBombError) as error:
        return (str(error).splitlines() or [type(error).__name__])[0]
    array = np.asarray(small, np.uint8).reshape(layout.height, layout.width, layout.channels)
    return array.transpose(2, 0, 1) if layout.first else array


def open_folder(root: Path) -> PictureData:
    """A folder for each class, with pictures in it."""
    seen = Seen()
    found = sorted(
        sample for sample in folder_source(root, "class").samples(seen)
        if sample.label and sample.file is not None and sample.file.suffix.lower() in SUFFIXES
    )  # fmt: skip
    lost = seen.names.get("unreadable", [])
    return _opened(root, lambda: iter(found), found, {name.partition(": ")[0]: name for name in lost})


def open_parquet(files: Sequence[Path], label: str | None) -> PictureData:
    """Pictures as bytes in a column, beside a column of labels."""
    source = parquet_source(files, Columns(label=label))

    def samples() -> Iterator[Sample]:
        return (sample for sample in source.samples(Seen()) if sample.label)

    return _opened(files[0].parent if len(files) > 1 else files[0], samples, samples(), {})


def _opened(
    place: Path, samples: Callable[[], Iterator[Sample]], found: Sequence[Sample] | Iterator[Sample],
    lost: Mapping[str, str],
) -> PictureData:  # fmt: skip
    labels, count = set(), 0
    for sample in found:
        labels.add(sample.label)
        count += 1
    if not count:
        raise EvaluationError(
            f"{place} has no pictures; expected a folder for each class, with {', '.join(SUFFIXES)}"
            if place.is_dir() else f"{place} has no sample with a label"
        )  # fmt: skip
    damage = Damage(count + len(lost), str(place))
    for name, why in lost.items():
        damage.add(name, why)
    return PictureData(str(place), samples, count, sorted(labels), damage)
