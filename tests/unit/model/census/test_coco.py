"""Boxes on images: what files of COCO add up to, also if they are damaged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast_model.census import DataSetError, look
from holdfast_train.exchange.command import main

Put = Callable[..., Path]


def coco(images: list[str], boxes: list[tuple[int, int]], categories: dict[int, str], **more: Any) -> dict[str, Any]:
    """`boxes`: number of the image and number of the category."""
    return {
        "images": [{"id": key, "file_name": name} for key, name in enumerate(images)],
        "categories": [{"id": key, "name": name} for key, name in categories.items()],
        "annotations": [
            {"id": key, "image_id": image, "category_id": category, "bbox": [0, 0, 4, 5], "segmentation": [[1] * 8]}
            for key, (image, category) in enumerate(boxes)
        ],
        **more,
    }


CLASSES = {1: "cat", 2: "dog", 3: "owl"}
TRAIN = coco(["a.jpg", "b.jpg", "c.jpg"], [(0, 1), (0, 1), (0, 2), (1, 1)], CLASSES)
VAL = coco(["x.jpg", "a.jpg"], [(0, 2)], CLASSES)


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write a file: an object as JSON, or bytes."""

    def write(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


# Breaks if boxes are counted as images, if a class without a box is lost, or images without boxes.
def test_boxes_and_images_by_class_and_split(put: Put, tmp_path: Path) -> None:
    put("annotations/instances_train.json", TRAIN)
    put("annotations/instances_val.json", VAL)
    found = look(tmp_path / "annotations")
    assert look(tmp_path).counts == found.counts, "the folder above is known too"
    assert found.counts == {"train": {"cat": 3, "dog": 1, "owl": 0}, "val": {"cat": 0, "dog": 1, "owl": 0}}
    assert found.boxes is not None
    assert found.boxes.images == {"train": 3, "val": 2}
    assert found.boxes.empty == {"train": 1, "val": 1}
    assert found.boxes.by_class == {"train": {"cat": 2, "dog": 1}, "val": {"dog": 1}}
    assert list(found.wrong()) == [
        "split 'train' has no box of 1 class: owl",
        "split 'val' has no box of 2 classes: cat, owl",
        "1 name of images in more than one split: a.jpg; if they are the same images, remove them from one of the "
        "splits",
    ]
    assert found.seen.counts == {"remote": 5}, "no image is on this machine"


# Breaks if the same image under another name is missed, or if two images of one name are taken for the same.
@pytest.mark.parametrize("folders", [("train", "val"), ("images/train", "images/val"), ("near/train", "near/val")])
def test_images_that_are_there_are_compared_by_their_bytes(put: Put, tmp_path: Path, folders: tuple[str, str]) -> None:
    files = [put("annotations/instances_train.json", TRAIN), put("annotations/instances_val.json", VAL)]
    for name, content in (("a.jpg", b"1"), ("b.jpg", b"twin"), ("c.jpg", b"333")):
        put(f"{folders[0]}/{name}", content)
    for name, content in (("x.jpg", b"twin"), ("a.jpg", b"other")):
        put(f"{folders[1]}/{name}", content)
    images = tmp_path / "near" if folders[0].startswith("near") else None
    found = look(*files, images=images)
    assert found.twins.across == 1
    assert found.twins.examples == [("across splits", ["train: b.jpg", "val: x.jpg"])]
    wrong = "\n".join(found.wrong())
    assert "1 image in more than one split" in wrong
    assert "name of images" not in wrong, "both images a.jpg are there, and differ"
    assert "1 name of images" in "\n".join(look(*files, images=images, hashes=False).wrong())


def test_one_image_that_two_splits_name_is_in_both(put: Put) -> None:
    files = [put("train.json", TRAIN), put("val.json", VAL)]
    for name in ("a.jpg", "b.jpg", "c.jpg", "x.jpg"):
        put(f"images/{name}", name.encode())
    found = look(*files)
    assert found.twins.examples == [("across splits", ["train: a.jpg", "val: a.jpg"])]
    (files[0].parent / "images" / "b.jpg").unlink()
    assert look(*files).seen.names["unreadable"] == ["train: b.jpg: no such file"]


def test_folders_of_splits_as_tools_for_annotation_write_them(put: Put, tmp_path: Path) -> None:
    for split, content in (("train", TRAIN), ("valid", VAL)):
        put(f"{split}/_annotations.coco.json", content)
        put(f"{split}/a.jpg", split.encode())
    found = look(tmp_path)
    assert list(found.counts) == ["train", "valid"]
    assert "remote" not in found.seen.counts
    assert look(tmp_path / "train").counts == {"": {"cat": 3, "dog": 1, "owl": 0}}


def test_a_class_with_another_number_in_another_split_is_named(put: Put) -> None:
    other = coco(["x.jpg"], [(0, 1)], {1: "dog", 2: "cat", 3: "owl"})
    wrong = list(look(put("train.json", TRAIN), put("val.json", other)).wrong())
    assert wrong[-1].startswith("2 classes have another number in another split: cat (train: 1, val: 2), dog")


def test_boxes_that_cannot_be_counted_are_named(put: Put) -> None:
    boxes = [[1, 2, 3], [0, 0, 0, 5], [0, 0, 5, "5"], [float("nan"), 0, 1, 1], [10**400, 0, 1, 1], None, [0.5, 0, 1, 1]]
    entries = [{"image_id": 0, "category_id": 1, "bbox": box} for box in boxes]
    entries += [
        {"image_id": 9, "category_id": 1, "bbox": [0, 0, 1, 1]},
        {"image_id": 0, "category_id": "x", "bbox": []},
    ]
    found = look(put("x.json", coco(["a.jpg"], [], {1: "cat", 2: "cat"}, annotations=entries)))
    assert found.counts == {"": {"cat": 1}}
    assert found.seen.names["lost boxes"] == ["annotations[7]: image 9", "annotations[8]: category x"]
    assert found.seen.counts["bad boxes"] == 6
    wrong = list(found.wrong())
    assert wrong[0].startswith("2 boxes are not counted, because the file does not list")
    assert wrong[2] == "1 category has the name of another one of the file, and is counted with it: cat"


# Breaks if a damaged file ends with a traceback, or with words that do not say where it is damaged.
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON, or was cut off"),
        (b'{"images": [', "is not JSON, or was cut off"),
        (b"\xff\xfe\x00", "is not JSON, or was cut off"),
        (b"[" * 100_000, "is not JSON, or was cut off"),
        (b"9" * 5_000, "is not JSON, or was cut off"),
        ([], "is not a file of COCO: expected an object with the lists images, annotations and categories"),
        ({"images": [], "annotations": []}, "is not a file of COCO"),
        ({"images": {}, "annotations": [], "categories": []}, "is not a file of COCO"),
        (coco([], [], CLASSES), "has no images"),
        (TRAIN | {"images": [3]}, r"images\[0\] is 3; allowed: an object"),
        (TRAIN | {"images": [{"file_name": "a"}]}, r"images\[0\].id is missing; allowed: a whole number, or a text"),
        (TRAIN | {"images": [{"id": [1], "file_name": "a"}]}, r"images\[0\].id is list of 1; allowed"),
        (TRAIN | {"images": [{"id": True, "file_name": "a"}]}, r"images\[0\].id is True; allowed"),
        (TRAIN | {"images": [{"id": 1, "file_name": "a"}] * 2}, r"images\[1\].id 1 is a duplicate"),
        (TRAIN | {"images": [{"id": 1}]}, r"images\[0\].file_name is None; allowed: a text of 1 to"),
        (TRAIN | {"categories": [{"id": 1, "name": "x" * 5_000}]}, r"categories\[0\].name is 'x+; allowed: a text"),
        (TRAIN | {"annotations": [{"image_id": 0, "caption": "a cat"}]}, r"annotations\[0\].category_id is missing"),
    ],
    ids=["empty", "cut off", "bytes", "deep", "digits", "list", "no categories", "object", "no images", "number",
         "no id", "id a list", "id a bool", "id twice", "no name", "long name", "captions"],
)  # fmt: skip
def test_a_damaged_file(put: Put, content: Any, said: str) -> None:
    with pytest.raises(DataSetError, match=said) as caught:
        look(put("x.json", content))
    assert len(str(caught.value)) < 400


def test_bounds(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put("x.json", TRAIN)
    monkeypatch.setattr("holdfast_model.census.coco_file.MOST_CLASSES", 2)
    with pytest.raises(DataSetError, match="has 3 categories; allowed: at most 2"):
        look(file)
    monkeypatch.setattr("holdfast_model.census.coco_file.MOST_BYTES", 100)
    with pytest.raises(DataSetError, match="has over 0 MiB; look at a part of it"):
        look(file)
    monkeypatch.setattr("holdfast_model.census.coco.MOST_FILES", 1)
    with pytest.raises(DataSetError, match="2 files of COCO; allowed: at most 1"):
        look(file, file)


def test_places_that_do_not_go_together(put: Put, tmp_path: Path) -> None:
    file = put("x.json", TRAIN)
    with pytest.raises(DataSetError, match="are both files of the split 'x'; name one of them"):
        look(file, file)
    with pytest.raises(DataSetError, match=r"only files of COCO, which end in \.json, can have that"):
        look(file, put("x.csv", b"label\na\n"))
    with pytest.raises(DataSetError, match=r"none.json does not exist"):
        look(file, tmp_path / "none.json")
    with pytest.raises(DataSetError, match="none is not a folder; name the folder with the images"):
        look(file, images=tmp_path / "none")
    with pytest.raises(DataSetError, match="a folder of images; only files of COCO"):
        look(tmp_path / "x.csv", images=tmp_path)


# Breaks if a name of a class or an image reaches the page as HTML or the terminal as a command, or names are looked for
# where no file can be.
def test_the_command_shows_boxes_and_its_page_escapes(
    put: Put, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["<i>\x1b[2J.jpg", "a\0.jpg", "../../etc/passwd", "x" * 4_000]
    file = put("x.json", coco(names, [(0, 1), (1, 1)], {1: "<b>cat\x1b</b>", 2: "owl"}))
    put("a.jpg", b"")
    page = tmp_path / "x.html"
    assert main(["data", str(file), "--images", str(tmp_path), "--html", str(page), "--strict"]) == 1
    said = capsys.readouterr()
    assert "2 boxes of 2 classes on 4 images in" in said.out
    assert said.out.splitlines()[1].split() == [
        "split", "images", "no", "box", "boxes", "classes", "missing", "evenness",
    ]  # fmt: skip
    assert said.out.splitlines()[2].split()[:6] == ["all", "4", "2", "2", "1", "1"]
    assert "the data set has no box of 1 class: owl" in said.err
    assert "\x1b" not in said.out + said.err
    shown = page.read_text()
    assert "&lt;b&gt;cat" in shown
    assert "<b>cat" not in shown
    assert "<i>" not in shown
    assert main(["data", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["boxes"]["images"] == 4
    assert found["boxes"]["splits"][""]["withoutBoxes"] == 2
    assert found["splits"][""]["classes"]["owl"] == 0


# Breaks if an image that a file lists twice counts as one that a split repeats.
def test_an_image_that_is_listed_twice(put: Put) -> None:
    put("a.jpg", b"1")
    found = look(put("x.json", coco(["a.jpg", "a.jpg"], [(0, 1)], {1: "cat"})))
    assert found.seen.names["listed twice"] == ["a.jpg"]
    assert found.twins.within == 0
