"""Which checkpoints are complete, and what the Trainer of Hugging Face says of one."""

from pathlib import Path

import pytest
from tests.support.trainer.folders import archive, hugging_face
from tests.support.trainer.strangers.wild import BEFORE_ZIP, tensors

from holdfast_train.folder.layouts import Unit, find
from holdfast_train.folder.look import look
from holdfast_train.folder.marks import has_mark, is_marked, metrics_of

HEADER = b'{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'


def unit_of(root: Path, pattern: str | None = None) -> Unit:
    (unit,) = find(look(root), pattern)
    return unit


# Breaks if a torn file of safetensors counts as whole, or if any bytes in its place end the process.
@pytest.mark.parametrize(
    ("content", "whole"),
    [
        (len(HEADER).to_bytes(8, "little") + HEADER + b"abcd", True),
        (len(HEADER).to_bytes(8, "little") + HEADER + b"abc", False),
        (len(HEADER).to_bytes(8, "little") + HEADER[:-9], False),
        (b"", False),
        (b"\xff" * 64, False),
        ((2).to_bytes(8, "little") + b"[]", False),
        ((19).to_bytes(8, "little") + b'{"w":{"data_off":1}', False),
        ((2).to_bytes(8, "little") + b"{}", True),
        ((60_000).to_bytes(8, "little") + b"[" * 60_000, False),
    ],
)
def test_files_of_safetensors(tmp_path: Path, content: bytes, whole: bool) -> None:
    archive(tmp_path / "optimizer.pt")
    (tmp_path / "model.safetensors").write_bytes(content)
    unit = unit_of(tmp_path)
    assert [file.path for file in unit.files] == ["model.safetensors", "optimizer.pt"]
    assert is_marked(tmp_path, unit) == whole


@pytest.mark.parametrize(
    ("index", "whole"),
    [
        ('{"weight_map": {"a": "model.safetensors"}}', True),
        ('{"weight_map": {"a": "other.safetensors"}}', False),
        ('{"weight_map": {"a": 7, "b": "\\u0000"}}', True),
        ('{"weight_map": []}', True),
        ('{"weight_map": {"a": "mod', False),
    ],
)
def test_an_index_names_files(tmp_path: Path, index: str, whole: bool) -> None:
    archive(tmp_path / "optimizer.pt")
    tensors(tmp_path / "model.safetensors", b"w")
    (tmp_path / "model.safetensors.index.json").write_text(index)
    assert is_marked(tmp_path, unit_of(tmp_path)) == whole


# Breaks if a file of torch.save in its first format is never saved, or is taken for whole without a pause.
def test_the_first_format_of_torch(tmp_path: Path) -> None:
    (tmp_path / "ckpt.pt").write_bytes(BEFORE_ZIP + b"weights")
    for pattern in (None, "*.pt"):
        unit = unit_of(tmp_path, pattern)
        assert is_marked(tmp_path, unit)
        assert not has_mark(tmp_path, unit)
    archive(tmp_path / "ckpt.pt")
    assert has_mark(tmp_path, unit_of(tmp_path))


def test_metrics(tmp_path: Path) -> None:
    hugging_face(tmp_path, 3)
    assert metrics_of(tmp_path, unit_of(tmp_path)) == {"loss": "1.25"}
