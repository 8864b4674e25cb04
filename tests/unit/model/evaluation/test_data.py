"""Arrays as data: what fits a model, and what is refused."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from holdfast_model.evaluation.data import ArrayData, Damage, open_arrays
from holdfast_model.evaluation.errors import EvaluationError
from holdfast_model.evaluation.task import Task
from holdfast_model.package import Tensor

TASK = Task("classes", {"x": Tensor("float32", ("n", 3))}, {"n": (1, 2)}, "y", 4, ())
TOKENS = Task("tokens", {"x": Tensor("int64", ("n", "t"))}, {"n": (1, 8), "t": (1, 8)}, "y", 9, ())
X = np.arange(15, dtype=np.float32).reshape(5, 3)
LABELS = np.array([0, 1, 2, 3, 0])


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors"])
def test_files_of_arrays(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if name.endswith("npz"):
        np.savez(file, x=X, labels=LABELS)
    else:
        save_file({"x": X, "labels": LABELS}, file)
    data = open_arrays(file)
    assert data.fit(TASK) == {}
    found = list(data.batches(TASK, 2))
    assert [batch.labels.tolist() for batch in found] == [[0, 1], [2, 3], [0]]
    assert np.array_equal(np.concatenate([batch.inputs["x"] for batch in found]), X)
    assert found[2].names == ["sample 4"]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": X[:, :2], "labels": LABELS}, r"x has the shape \(5, 2\); 2 must be 3"),
        ({"x": X.astype(np.float64), "labels": LABELS}, "x has the type float64; needed: float32"),
        ({"x": X, "labels": LABELS + 1}, "the label of sample 3 is 4; allowed: 0 to 3"),
        ({"x": X, "labels": -LABELS}, "the label of sample 1 is -1; allowed: 0 to 3"),
        ({"x": X, "labels": LABELS[:2]}, r"labels have the shape \(2,\); needed: \(5,\)"),
        ({"x": X, "labels": LABELS / 2}, "labels have the type float64; needed: whole numbers"),
        ({"x": X}, "has no array of labels"),
        ({"labels": LABELS}, "has no samples"),
        ({"x": X[:0], "labels": LABELS[:0]}, "has no samples"),
        ({"y": X, "labels": LABELS}, "lacks 'x'; needed: x"),
        ({"x": X, "z": X, "labels": LABELS}, "has 'z', which is not in the problem"),
    ],
)
def test_what_does_not_fit(arrays: dict[str, np.ndarray], said: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(EvaluationError, match=said):
        ArrayData("data.npz", arrays).fit(TASK)


# Breaks if a token is to be predicted from itself, or if the last one of a window has a target.
def test_targets_of_tokens_are_the_next_ones() -> None:
    data = ArrayData("x", {"x": np.array([[1, 2, 3]])})
    assert data.fit(TOKENS) == {"t": 3}
    assert next(data.batches(TOKENS, 8)).labels.tolist() == [[2, 3, -100]]
    data = ArrayData("x", {"x": np.array([[1, 2, 3]]), "labels": np.array([[4, -100, 5]])})
    data.fit(TOKENS)
    assert next(data.batches(TOKENS, 8)).labels.tolist() == [[4, -100, 5]]


# Breaks if a pickle in the file is loaded: it runs code.
@pytest.mark.parametrize("content", [b"", b"PK", b"no zip at all"])
def test_damaged_files(tmp_path: Path, content: bytes) -> None:
    for name in ("x.npz", "x.safetensors"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(EvaluationError, match="cannot be read"):
            open_arrays(tmp_path / name)
    np.savez(tmp_path / "pickle.npz", x=np.array([{}], object))
    with pytest.raises(EvaluationError, match="allow_pickle=False"):
        open_arrays(tmp_path / "pickle.npz")


def test_a_file_that_would_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_model.evaluation.data.MOST_BYTES", 10)
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros(10**5))
    with pytest.raises(EvaluationError, match="at most 0 are read"):
        open_arrays(tmp_path / "x.npz")


# Breaks if a score of a half-destroyed data set is given, or if models see different samples.
# Breaks if a file of some bytes that claims an array of terabytes ends the command with a traceback.
def test_a_header_that_claims_too_much(tmp_path: Path) -> None:
    header = io.BytesIO()
    claim = {"descr": "<f4", "fortran_order": False, "shape": (10**13, 3)}
    np.lib.format.write_array_header_1_0(header, claim)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    with pytest.raises(EvaluationError, match="does not fit into memory; evaluate a part of it"):
        open_arrays(tmp_path / "x.npz")


def test_too_many_damaged_samples_and_a_change_while_reading() -> None:
    damage = Damage(20, "pictures")
    damage.add("a.png", "broken")
    with pytest.raises(EvaluationError, match=r"over 5% of the 20 samples in pictures cannot be read.*a\.png: broken"):
        damage.add("b.png", "broken")
    damage = Damage(100, "pictures", is_complete=True)
    with pytest.raises(EvaluationError, match=r"pictures has changed while it was read: a\.png: gone"):
        damage.add("a.png", "gone")
