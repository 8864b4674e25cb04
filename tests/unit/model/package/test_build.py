"""The weights of a package: what is written is all that the model has. The other forms: tests/integration."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import nn

from holdfast_model.package import PackageError, Problem, ProblemError, Score, Tensor
from holdfast_model.package.build import Built, build
from holdfast_model.package.folder import named_files, verify
from holdfast_model.package.problem import Arrays
from holdfast_model.package.record import Origin
from holdfast_model.package.variants import Source
from holdfast_train.errors import HoldfastTrainError, StateError

Tensors = dict[str, torch.Tensor]


class Tied(nn.Module):
    """Two layers with the same weight, and a third one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(3, 3, bias=False) for _ in range(3))
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.third(self.second(self.first(x)))
        return made


PROBLEM = Problem(
    model=Tied,
    inputs={"x": Tensor("float32", ("rows", 3))},
    outputs={"y": Tensor("float32", ("rows", 3))},
    dims={"rows": (1, 4)},
    examples=[{"x": np.ones((2, 3), np.float32)}],
)


def made(tmp_path: Path, score: Score | None = None) -> Built:
    problem = replace(PROBLEM, score=score)
    return build(problem, Tied(), Origin("uid", 7, "", ""), tmp_path / "tied", variants=["safetensors"])


def test_tied_weights_are_written_once(tmp_path: Path) -> None:
    built = made(tmp_path)
    assert not built.failed
    assert built.package.variants["safetensors"]["note"] == "tied, and written once: second.weight (is first.weight)"
    assert sorted(safetensors.torch.load_file(tmp_path / "tied/safetensors/model.safetensors")) == [
        "first.weight", "third.weight",
    ]  # fmt: skip


# Breaks if a file without a tensor, or with one that is not the model's, passes its test.
@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda found: found.pop("third.weight"), "third.weight is missing in the file"),
        (lambda found: found.pop("first.weight"), "first.weight is missing in the file"),
        (lambda found: found.update(more=torch.ones(1)), "more is in the file, and the model has no such tensor"),
        (lambda found: found["first.weight"].add_(1), "first.weight is not what the model has"),
        (lambda found: found.update({"third.weight": found["third.weight"].double()}), "third.weight is not what"),
    ],
)
def test_a_file_that_is_not_the_model_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Tensors], object], why: str
) -> None:
    read = safetensors.torch.load_file

    def damaged(file: Path) -> Tensors:
        found = read(file)
        damage(found)
        return found

    monkeypatch.setattr(safetensors.torch, "load_file", damaged)
    assert made(tmp_path).failed["safetensors"].startswith(why)


# Breaks if README.md or the page can be changed without a word: package.json has the hashes of all files.
def test_package_json_names_every_file(tmp_path: Path) -> None:
    package = made(tmp_path).package
    there = {str(path.relative_to(package.folder)) for path in package.folder.rglob("*") if path.is_file()}
    assert set(named_files(package.document)) == there - {"package.json"}
    verify(package, named_files(package.document))


# Breaks if a score that is no number admits a variant: with NaN none can be compared, and all would pass.
def test_a_score_that_is_no_number_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="the score accuracy of the model in torch is nan; it has to be a finite"):
        made(tmp_path, Score("accuracy", lambda _: float("nan"), 0.01))
    with pytest.raises(StateError, match=r"the score accuracy raised an error: .*test_build\.py, line .*Zero"):
        made(tmp_path, Score("accuracy", lambda _: 1 / 0, 0.01))
    assert list(tmp_path.iterdir()) == []


# Breaks if a link that leads nowhere is replaced, or is found only after all variants were made.
def test_a_link_is_not_a_new_folder(tmp_path: Path) -> None:
    (tmp_path / "tied").symlink_to(tmp_path / "nowhere")
    with pytest.raises(PackageError, match="exists already"):
        made(tmp_path)


# Breaks if calibration data that is wrong makes an int8 variant, or ends the package without the line of the user.
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (list, "gives no inputs; give some that the model meets in use"),
        (lambda: [{"y": np.ones((2, 3), np.float32)}], "calibration input 0 lacks 'x'; needed: x"),
        (lambda: [{}["x"]], r"raised an error: .*test_build\.py, line .*KeyError"),
    ],
)
def test_calibration_data_is_checked(tmp_path: Path, data: Callable[[], list[Arrays]], said: str) -> None:
    problem = replace(PROBLEM, calibration=data)
    with pytest.raises(HoldfastTrainError, match=said):
        Source(problem, Tied(), problem.examples[0], tmp_path, {}).calibration()


# Breaks if a full disk, for which safetensors has an error of its own, is a traceback, or leaves half a package.
def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_arrays: object, _file: Path) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.numpy, "save_file", full)
    with pytest.raises(PackageError, match=r"tests\.safetensors cannot be written: I/O error: No space left"):
        made(tmp_path)
    assert list(tmp_path.iterdir()) == []


class Branching(nn.Module):
    """Its control flow depends on values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


# Breaks if pages of torch's own graphs hide the answer, or if it lacks the line of the model that cannot be exported.
def test_a_model_that_cannot_be_exported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    built = build(PROBLEM, Branching(), Origin("uid", 7, "", ""), tmp_path / "made", variants=["pt2"])
    assert "test_build.py, line " in built.failed["pt2"]
    assert "in forward (return x if x.sum() > 0 else -x): GuardOnDataDependentSymNode" in built.failed["pt2"]
    assert capfd.readouterr() == ("", "")
