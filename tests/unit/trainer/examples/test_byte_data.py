"""The data of the language model: one file of bytes, and windows of it."""

from pathlib import Path

import numpy as np
import pytest

from holdfast_train.examples.byte_data import ByteData, build


def test_data_is_built_once(text: Path) -> None:
    first = build(str(text))
    stamp = first.stat().st_mtime_ns
    assert build(str(text)) == first
    assert first.stat().st_mtime_ns == stamp
    assert first.read_bytes().count(b"\0") == 5  # five files of text, not the image
    (text / "0.py").write_text("new")
    assert build(str(text)) != first
    assert [path.name for path in first.parent.iterdir() if path.name.startswith(".")] == []


def test_data_of_a_file_and_a_glob(text: Path) -> None:
    assert build(str(text / "1.py")).read_bytes().startswith(b"def function_1")
    assert build(f"{text}/[12].py").read_bytes().count(b"\0") == 2
    with pytest.raises(ValueError, match="has no file"):
        build(str(text / "missing"))


def test_every_window_once_an_epoch(text: Path) -> None:
    path = text / "numbers"
    path.write_bytes(bytes(range(201)))
    data = ByteData(path, length=10, batch=5, seed=3)
    epochs = [[tuple(row) for step in range(4) for row in data.batch(4 * epoch + step)] for epoch in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert epochs[0] != epochs[1]
    assert len(set(epochs[0])) == 20
    assert data.batch(2).shape == (5, 11)


def test_ranks_share_a_step(text: Path) -> None:
    data = ByteData(build(str(text)), length=16, batch=4, seed=1)
    together = np.concatenate([data.batch(7, rank, 2) for rank in range(2)])
    assert (together == data.batch(7)).all()


def test_fingerprint_of_the_data(text: Path) -> None:
    found = ByteData(text / "0.py", length=16, batch=4, seed=1).fingerprint()
    size = (text / "0.py").stat().st_size
    assert found == {"seed": "1", "batch": "4", "length": "16", "bytes": str(size)}


def test_position_of_other_data(text: Path) -> None:
    data = ByteData(build(str(text)), length=16, batch=4, seed=1)
    data.batch(8)
    state = data.state_dict()
    assert state["step"] == 9
    data.load_state_dict({**state, "bytes": 1})
    assert data.step == 9
    with pytest.raises(ValueError, match="seed"):
        data.load_state_dict({**state, "seed": 9})


def test_data_smaller_than_a_batch(text: Path) -> None:
    (text / "tiny").write_bytes(b"abc")
    with pytest.raises(ValueError, match="fewer than a batch"):
        ByteData(text / "tiny", length=16, batch=4)
