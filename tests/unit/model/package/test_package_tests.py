"""Files of torch.export may contain code: nothing opens one unless it is asked to."""

import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast_model.package import PackageError, WorkerError, load
from holdfast_model.package.folder import file_entry
from holdfast_model.package.package_tests import run_tests

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Doubling(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


class Evil:
    """Writes a file when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of torch.export."""
    file = tmp_path_factory.mktemp("exported") / "model.pt2"
    rows = {0: torch.export.Dim("rows", min=1, max=8)}
    torch.export.save(torch.export.export(Doubling(), (torch.from_numpy(X),), dynamic_shapes=(rows,)), file)
    return file


@pytest.fixture
def package(make: Callable[..., Path], exported: Path) -> Path:
    """With pt2 beside onnx."""
    folder = make()
    (folder / "pt2").mkdir()
    shutil.copy(exported, folder / "pt2")
    listed(folder)
    return folder


def listed(folder: Path, name: str = "pt2", *, alone: bool = False) -> None:
    """Write the variant pt2 into package.json under `name`."""
    document = json.loads((folder / "package.json").read_text())
    entry = document["variants"]["onnx"] | {
        "runtime": "torch", "model": "pt2/model.pt2",
        "files": {"pt2/model.pt2": file_entry(folder / "pt2" / "model.pt2")},
    }  # fmt: skip
    document["variants"] = ({} if alone else document["variants"]) | {name: entry}
    (folder / "package.json").write_text(json.dumps(document))


def poisoned(folder: Path, mark: Path) -> None:
    """Put code into the file of pt2, where torch.export keeps the example inputs."""
    file = folder / "pt2" / "model.pt2"
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in parts if "sample_inputs" in name)
    target = folder.parent / "evil.pt"
    torch.save(Evil(mark), target, pickle_module=pickle)
    parts[name] = target.read_bytes()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for one, data in parts.items():
            archive.writestr(one, data)


# Breaks if the worker's way to load refuses honest files.
def test_pt2_runs_if_it_is_asked_for(package: Path) -> None:
    found = run_tests(package, run_code=True)["pt2"]
    assert not isinstance(found, str)
    assert found.passed


# Breaks if pt2 is opened without a word, or if a stranger can give it another name.
def test_pt2_is_not_chosen(package: Path) -> None:
    with load(package) as model:
        assert model.variant == "onnx"
    assert "may contain code" in str(run_tests(package)["pt2"])
    listed(package, "onnx")
    with pytest.raises(PackageError, match="only the variant pt2 has the runtime torch"):
        load(package, "onnx")
    listed(package, alone=True)
    with pytest.raises(PackageError, match=r"if you trust its maker, ask for it: load\(\.\.\., 'pt2'\)"):
        load(package)


# Breaks if the process of the model, or this one, lets torch.export fall back to pickle.
@pytest.mark.parametrize("isolated", [True, False])
def test_pickle_in_pt2_does_not_run(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolated: bool
) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    poisoned(package, tmp_path / "mark")
    listed(package)
    with pytest.raises(WorkerError):
        load(package, "pt2", isolated=isolated)
    assert not (tmp_path / "mark").exists()
    assert os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD") is None
