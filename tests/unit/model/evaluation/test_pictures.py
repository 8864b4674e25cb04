"""Pictures of folders and of Parquet as inputs."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from holdfast_model.evaluation.errors import EvaluationError
from holdfast_model.evaluation.pictures import PictureData, as_picture, as_png, open_folder, open_parquet
from holdfast_model.evaluation.task import Task
from holdfast_model.package import Pixels, Tensor

COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255)}


def task(*shape: int, dtype: str = "float32", classes: tuple[str, ...] = ("blue", "red"), size: int = 2) -> Task:
    tensor = Tensor(dtype, ("n", *(shape or (3, 2, 2))))
    return Task("classes", {"images": tensor}, {"n": (1, 8)}, "y", size, classes, Pixels((0.5,), (0.5,)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, colour in COLOURS.items():
        (tmp_path / name).mkdir()
        for number in range(2):
            Image.new("RGB", (8, 6), colour).save(tmp_path / name / f"{number}.png")
    (tmp_path / "red" / "notes.txt").write_text("not counted")
    return tmp_path


def only(data: PictureData, wanted: Task) -> tuple[np.ndarray, list[int]]:  # type: ignore[type-arg]
    data.fit(wanted)
    (batch,) = data.batches(wanted, 8)
    return batch.inputs["images"], batch.labels.tolist()


# Breaks if channels, values or classes are exchanged: the model would see other pictures than in its training.
def test_a_folder_of_classes(root: Path) -> None:
    images, labels = only(open_folder(root), task())
    assert (images.shape, images.dtype, labels) == ((4, 3, 2, 2), np.float32, [0, 0, 1, 1])
    assert images[0, :, 0, 0].tolist() == [-1, -1, 1]
    images, labels = only(open_folder(root), task(2, 2, 3, dtype="uint8", classes=("red", "green", "blue"), size=3))
    assert (images.shape, labels) == ((4, 2, 2, 3), [2, 2, 0, 0])
    assert images[0, 0, 0].tolist() == [0, 0, 255]


def test_numbers_and_unnamed_classes(root: Path) -> None:
    assert only(open_folder(root), task(classes=()))[1] == [0, 0, 1, 1]
    with pytest.raises(EvaluationError, match=r"2 classes, the model has 3, and the package does not say their names"):
        open_folder(root).fit(task(classes=(), size=3))
    (root / "red").rename(root / "7")
    (root / "blue").rename(root / "02")
    assert only(open_folder(root), task(classes=(), size=8))[1] == [2, 2, 7, 7]
    with pytest.raises(EvaluationError, match="has the class '7', which the model does not know; allowed: 0 to 4"):
        open_folder(root).fit(task(classes=(), size=5))


def test_parquet(tmp_path: Path) -> None:
    images = []
    for colour in COLOURS.values():
        file = io.BytesIO()
        Image.new("RGB", (2, 2), colour).save(file, "PNG")
        images.append({"bytes": file.getvalue(), "path": None})
    parquet.write_table(pa.table({"image": images, "label": ["red", "blue"]}), tmp_path / "x.parquet")
    images_, labels = only(open_parquet([tmp_path / "x.parquet"], None), task())
    assert labels == [1, 0]
    assert images_[0, :, 0, 0].tolist() == [1, -1, -1]


# Breaks if a folder of splits is taken for one of classes without a hint.
def test_what_does_not_fit(root: Path, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"no pictures; expected a folder for each class"):
        open_folder(root / "red")
    (root / "red").rename(root / "train")
    with pytest.raises(EvaluationError, match=r"'train', which the model does not know; allowed: blue, red; name one"):
        open_folder(root).fit(task())
    with pytest.raises(EvaluationError, match=r"pictures fit only a model with one input of .*\(n, 5, 2, 2\)|images"):
        open_folder(root).fit(task(5, 2, 2))


def test_pixels_have_to_be_known(root: Path) -> None:
    unknown = Task("classes", task().inputs, task().dims, "y", 2, ("blue", "red"))
    with pytest.raises(EvaluationError, match="does not say how pixels become numbers: use --mean and --std"):
        open_folder(root).fit(unknown)
    per_channel = Task("classes", task(1, 2, 2).inputs, {}, "y", 2, ("blue", "red"), Pixels((0, 0, 0), (1, 1, 1)))
    with pytest.raises(EvaluationError, match=r"has 3 numbers for 1 channel"):
        open_folder(root).fit(per_channel)


# Breaks if a damaged picture ends the evaluation, or if it is passed over in silence.
def test_damaged_pictures_are_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_model.evaluation.data.MOST_DAMAGED", 0.9)
    whole = (root / "red" / "0.png").read_bytes()
    (root / "red" / "0.png").write_bytes(whole[: len(whole) // 2])
    (root / "blue" / "0.png").write_text("no picture")
    (root / "blue" / "1.png").unlink()
    (root / "blue" / "1.png").symlink_to("nowhere")
    data = open_folder(root)
    assert only(data, task())[1] == [1]
    assert set(data.damage.found) == {"red/0.png", "blue/0.png", "blue/1.png"}
    assert only(data, task())[1] == [1]  # once more, for another model


def test_a_picture_that_would_fill_the_memory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_model.evaluation.pictures.MOST_PIXELS", 10)
    data = open_folder(root)
    with pytest.raises(EvaluationError, match="it has 8 x 6 pixels; at most 10 are read"):
        list(data.batches(task(), 8))


def test_an_input_as_a_picture_again() -> None:
    seen = np.array([1, -1, -1], np.float32).reshape(3, 1, 1).repeat(2, 1).repeat(2, 2)
    picture = as_picture(seen, task())
    assert picture is not None
    assert picture[0, 0].tolist() == [255, 0, 0]
    assert as_picture(seen, Task("classes", task().inputs, {}, "y", 2, ())) is None


# Breaks if the pictures in a report are not those that the model saw.
@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_in_a_report_is_the_picture(channels: int) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, channels), np.uint8)
    with Image.open(io.BytesIO(as_png(picture))) as image:
        assert np.array_equal(np.asarray(image).reshape(picture.shape), picture)
