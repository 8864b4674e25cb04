"""Data sets of every source, with all that can be wrong in them."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from holdfast_model.census import DataSetError, look
from holdfast_model.census.manifest import Columns


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    """Write files below a folder: name -> contents."""

    def write(**files: str) -> Path:
        root = tmp_path / "data"
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return root

    return write


TREE = {"train/cat/1.png": "a", "train/cat/2.png": "bb", "train/dog/1.png": "ccc", "test/cat/3.png": "dddd"}


# Breaks if a split is taken for a class, or if a class that a split lacks is not said.
def test_folders_of_splits(put: Callable[..., Path]) -> None:
    found = look(put(**TREE))
    assert found.layout == "folders split/class"
    assert found.counts == {"train": {"cat": 2, "dog": 1}, "test": {"cat": 1}}
    assert found.missing() == {"test": ["dog"]}
    assert list(found.wrong()) == ["split 'test' has no sample of 1 class: dog"]


# Breaks if a class with the name of a split is taken for one, or if --layout is not obeyed.
def test_folders_of_classes(put: Callable[..., Path]) -> None:
    root = put(**{"cat/1.png": "a", "test/1.png": "bb", "dog/deep/2.png": "c"})
    assert look(root).counts == {"": {"cat": 1, "test": 1, "dog": 1}}
    assert look(put(**TREE), layout="class").counts[""]["train"] == 3


def test_an_empty_folder_is_a_class_without_samples(put: Callable[..., Path]) -> None:
    root = put(**{"cat/1.png": "a"})
    (root / "dog").mkdir()
    assert list(look(root).wrong()) == ["the data set has no sample of 1 class: dog"]


# Breaks if files are compared by size alone, if a leak is missed, or if it is counted as a repetition.
def test_identical_files(put: Callable[..., Path]) -> None:
    root = put(**TREE | {"test/cat/leak.png": "bb", "train/dog/same.png": "ccc", "train/cat/other.png": "cxc"})
    twins = look(root).twins
    assert (twins.across, twins.within, twins.conflicts) == (1, 1, 0)
    assert twins.examples == [
        ("across splits", ["test/cat/leak.png", "train/cat/2.png"]),
        ("same split", ["train/dog/1.png", "train/dog/same.png"]),
    ]
    conflict = put(**{"train/cat/3.png": "ccc"})
    assert look(conflict).twins.conflicts == 1
    assert look(conflict, hashes=False).twins.across == 0


def test_links_hidden_files_and_what_cannot_be_read(put: Callable[..., Path], tmp_path: Path) -> None:
    root = put(**{"cat/1.png": "a", "cat/.hidden": "b", "cat/empty.png": ""})
    (root / "cat" / "link.png").symlink_to(root / "cat" / "1.png")
    (root / "cat" / "gone.png").symlink_to(root / "nowhere")
    (root / "cat" / "again").symlink_to(root)  # a circle
    os.mkfifo(root / "cat" / "pipe")
    found = look(root)
    assert found.counts == {"": {"cat": 3}}
    assert found.twins.within == 1
    assert found.seen.counts == {
        "hidden": 1, "empty": 1, "links": 2, "unreadable": 1, "linked folders": 1, "special": 1,
    }  # fmt: skip
    assert found.seen.names["unreadable"] == ["cat/gone.png: No such file or directory"]


# Breaks if a folder that cannot be opened ends the command, or is passed over in silence.
def test_a_folder_that_cannot_be_opened(put: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root, scandir = put(**TREE), os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("dog"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("holdfast_model.census.folder.os.scandir", refuse)
    assert look(root).seen.names["unreadable"] == ["train/dog/: Permission denied"]


@pytest.mark.parametrize("name", ["list.csv", "list.tsv", "list.jsonl"])
def test_manifests(put: Callable[..., Path], name: str) -> None:
    rows = [("a.png", "cat", "train"), ("b.png", "dog", "train"), ("c.png", "cat", "test"), ("gone.png", "", "test"),
            ("a.png", "cat", "train"), ("s3://x/y.png", "dog", "test")]  # fmt: skip
    keys = ("file", "Label", "split")
    separator = "\t" if name.endswith("tsv") else ","
    lines = [separator.join(keys), *(separator.join(row) for row in rows)]
    if name.endswith("jsonl"):
        lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows]
    root = put(**{name: "\n".join(lines) + "\n", "a.png": "one", "b.png": "two", "c.png": "one"})
    found = look(root / name)
    assert found.counts == {"train": {"cat": 2, "dog": 1}, "test": {"cat": 1, "dog": 1}}
    assert found.unlabelled == {"test": 1}
    assert found.twins.examples == [("across splits", ["a.png", "c.png"])]
    assert found.seen.counts == {"unreadable": 1, "listed twice": 1, "remote": 1}


def test_columns_can_be_named(put: Callable[..., Path]) -> None:
    root = put(**{"x.csv": "who,part\nann,1\nbob,2\n"})
    assert look(root / "x.csv", columns=Columns(label="who", split="part")).counts == {"1": {"ann": 1}, "2": {"bob": 1}}
    with pytest.raises(DataSetError, match=r"has no column of labels; name one with --label; it has: 'who', 'part'"):
        look(root / "x.csv")
    with pytest.raises(DataSetError, match="has no column 'age' for --split"):
        look(root / "x.csv", columns=Columns(label="who", split="age"))


# Breaks if a number of a class is not given its name, or if contents in columns are not compared.
def test_parquet_as_hugging_face_writes_it(tmp_path: Path) -> None:
    about = json.dumps({"info": {"features": {"label": {"names": ["cat", "dog"]}}}})
    for split, labels in (("train", [0, 1, 1]), ("test", [0, -1])):
        images = [{"bytes": bytes([number]), "path": None} for number in range(len(labels))]
        table = pa.table({"image": images, "label": labels}).replace_schema_metadata({"huggingface": about})
        parquet.write_table(table, tmp_path / f"{split}-00000-of-00001.parquet")
    found = look(tmp_path)
    assert found.counts == {"train": {"cat": 1, "dog": 2}, "test": {"cat": 1}}
    assert found.unlabelled == {"test": 1}
    assert (found.twins.across, found.twins.conflicts) == (2, 1)
    assert found.twins.examples[0][1] == [
        "test: test-00000-of-00001.parquet row 1", "train: train-00000-of-00001.parquet row 1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.parquet", "no", "cannot be read as Parquet"),
        ("x.jsonl", "[1]\n", "line 1 is not an object"),
        ("x.jsonl", '{"label": 1}\n{\n', "line 2 is not JSON"),
        ("x.jsonl", "[" * 100_000 + "\n", "line 1 is not JSON"),
        ("x.csv", 'label\n"' + "a" * 200_000 + '"\n', "cannot be read as text"),
        ("x.csv", "label\n", "has no samples"),
        ("x.xml", "", "has the ending '.xml'; allowed: .csv"),
    ],
)
def test_what_is_no_data_set(put: Callable[..., Path], name: str, content: str, said: str) -> None:
    with pytest.raises(DataSetError, match=said):
        look(put(**{name: content}) / name)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataSetError, match="does not exist") as caught:
        look(tmp_path / "none")
    assert caught.value.command_code == 4
    with pytest.raises(DataSetError, match="has no samples; expected: a folder for each class"):
        look(tmp_path)


def test_a_column_of_texts_is_not_one_of_classes(put: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_model.census.survey.MOST_CLASSES", 2)
    with pytest.raises(DataSetError, match="over 2 different labels: name the column of classes with --label"):
        look(put(**{"x.csv": "label\na\nb\nc\n"}) / "x.csv")


# Breaks if a column that is different in each row is taken for splits: the page would have a column for each of them.
def test_a_column_of_names_is_not_one_of_splits(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("label,split\n" + "".join(f"cat,{number}\n" for number in range(101)))
    with pytest.raises(DataSetError, match="over 100 different splits: name the column or the folders of splits"):
        look(file)
