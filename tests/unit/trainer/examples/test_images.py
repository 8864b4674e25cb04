"""Pictures that no training has seen, in a file."""

from pathlib import Path

import numpy as np
import pytest

from holdfast_train.examples.images import Gratings, main


# Breaks if the pictures are not those of the same kind, or have other names of arrays than `evaluate` expects.
def test_pictures_and_labels_are_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "new.npz"), "--count", "20", "--image", "16"]) == 0
    assert capsys.readouterr().out.startswith("20 pictures of 10 classes")
    with np.load(tmp_path / "new.npz") as file:
        assert file["images"].shape == (20, 3, 16, 16)
        assert set(file["labels"].tolist()) <= set(range(10))
        seen = Gratings(20, size=16)[0][0].numpy()
        assert not np.array_equal(file["images"][0], seen), "those of the training begin at another number"


# Breaks if a file of the user is written over, or a wrong call ends with a traceback.
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["there.npz"], "there.npz cannot be written: File exists"),
        (["no/new.npz"], "cannot be written: No such file or directory"),
        (["new.txt"], "must end in .npz"),
        (["new.npz", "--count", "0"], "must be at least 1"),
    ],
    ids=["exists", "no folder", "suffix", "none"],
)
def test_a_wrong_call_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (tmp_path / "there.npz").write_text("mine")
    with pytest.raises(SystemExit):
        main([str(tmp_path / arguments[0]), *arguments[1:]])
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["there.npz"]
    assert (tmp_path / "there.npz").read_text() == "mine"
