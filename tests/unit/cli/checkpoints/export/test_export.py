"""`holdfast checkpoints export`: the files of the library of safetensors bit for bit, made without torch."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.support.trainer.exchange import Normal, normal, run, save, train, varied_state
from tests.support.trainer.stores import REPOSITORY
from typer.testing import CliRunner, Result

from holdfast.api.job import Best
from holdfast.api.job import Keep as JobKeep
from holdfast_cli.checkpoints.choice import choose
from holdfast_cli.checkpoints.survey import survey
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.main import app
from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.exchange.content import Content, to_tensor
from holdfast_train.exchange.exporting import outlines
from holdfast_train.exchange.safetensors_layout import lay_out
from holdfast_train.format.program import data_facts
from holdfast_train.restore.lazy_tensors import materialise
from holdfast_train.restore.source import read_newest_intact
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.storage.retrying import RetryingStorage


def export(prefix: Path, folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["checkpoints", "export", f"file://{prefix}", str(folder), *options])


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "prefix"


def content(folder: Path) -> dict[str, bytes | Normal]:
    return {
        path.name: normal(path) if path.suffix == ".safetensors" else path.read_bytes() for path in folder.iterdir()
    }


NUMBERS = (
    torch.uint16, torch.int16, torch.float16, torch.uint64, torch.int32, torch.uint32, torch.uint8,
    torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
)  # fmt: skip


def numpy_state() -> dict[str, Any]:
    """Arrays of every type that torch has, of types that it lacks, and scalars."""
    words = "?bBhHiIlLefdF"
    found: dict[str, Any] = {f"of {np.dtype(word).name} {word}": np.arange(3).astype(word) for word in words}
    return found | varied_state()["data"] | {"flag": np.bool_(True), "none too": np.empty((2, 0), "float32")}


def by_library(prefix: Path, folder: Path, name: str, most: int) -> None:
    """The export as the library of safetensors writes it, from tensors of torch."""
    storage = RetryingStorage(FolderStorage(prefix))

    def write(found: Found) -> None:
        content = Content.of(found.manifest.step, outlines(found, name), data_facts(found.manifest.program, {}))
        layout = lay_out(content, "model.safetensors", most)
        folder.mkdir()
        for file, group in layout.files.items():
            tensors = materialise(storage, found.manifest, group, lambda _: None)
            tensors |= {key: to_tensor(tensors[key]) for key in group if key in content.description.arrays}
            (folder / file).touch()
            rows = {key: tensor.contiguous() for key, tensor in tensors.items()}
            save_file(rows, folder / file, dict(layout.metadata))
        if layout.index is not None:
            (folder / layout.index[0]).write_text(layout.index[1])

    read_newest_intact(storage, None, write)


# Breaks if the order, the types, the padding, the tied names or the description differ from the library's file.
@pytest.mark.parametrize("most", ["5G", "100"])
@pytest.mark.parametrize("name", ["model", "data", "optimizer.state", 'model.é☃\x7f"\\'])
def test_every_type_as_the_library_writes_it(prefix: Path, tmp_path: Path, name: str, most: str) -> None:
    state = varied_state()
    model = {**state["model"], 'é☃\x7f"\\': torch.ones(3, dtype=torch.float64)}
    model |= {str(kind): torch.ones(3).to(kind) for kind in NUMBERS}
    save(prefix, {**state, "model": model, "data": numpy_state()}, 3)
    by_library(prefix, tmp_path / "theirs", name, 5 * 10**9 if most == "5G" else 100)
    run("export", prefix, tmp_path / "other", "--only", name, "--max-shard-size", "5GB" if most == "5G" else "100B")
    result = export(prefix, tmp_path / "ours", "--name", name, "--max-shard-size", most)
    assert result.exit_code == 0, result.output
    assert content(tmp_path / "ours") == content(tmp_path / "theirs") == content(tmp_path / "other")
    (tmp_path / "plain").touch()
    modes = {path.stat().st_mode for folder in ("ours", "other") for path in (tmp_path / folder).iterdir()}
    assert modes == {(tmp_path / "plain").stat().st_mode}


def test_a_trained_model(prefix: Path, tmp_path: Path) -> None:
    net, _ = train(prefix)
    result = export(prefix, tmp_path / "out")
    assert "step 4: 3 tensors" in result.output
    assert "tied, and written once: head.weight (is embed.weight)" in result.output
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert all(torch.equal(tensor, net.state_dict()[name]) for name, tensor in found.items())
    again = json.loads(export(prefix, tmp_path / "again", "-o", "json").output)
    assert (again["step"], again["tensors"], again["tied"]) == (4, 3, {"head.weight": "embed.weight"})
    assert [Path(file["path"]).name for file in again["files"]] == ["model.safetensors"]


# Breaks if a module on the way imports torch or NumPy: a laptop with the command line has neither.
def test_it_needs_neither_torch_nor_numpy(prefix: Path, tmp_path: Path) -> None:
    train(prefix)
    program = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "from holdfast_cli.main import app\n"
        f"app(['checkpoints', 'export', 'file://{prefix}', '{tmp_path / 'out'}'])\n"
    )
    paths = {"PYTHONPATH": f"{REPOSITORY / 'operator'}:{REPOSITORY / 'images/trainer'}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", program], env=paths, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "model.safetensors").exists()


def damage(prefix: Path, step: int) -> None:
    for data in (prefix / "data").glob(f"{step:012d}-*/r*"):
        data.write_bytes(b"x" * data.stat().st_size)


# Breaks if a checksum is not compared, or the file of the damaged checkpoint stays.
def test_a_damaged_checkpoint(prefix: Path, tmp_path: Path) -> None:
    save(prefix, {"model": {"x": torch.ones(9)}}, 1, 2)
    damage(prefix, 2)
    assert "step 1: 1 tensor, 36 B" in export(prefix, tmp_path / "out").output
    one = export(prefix, tmp_path / "named", "--step", "2")
    assert one.exit_code == ExitCode.NOT_FOUND
    assert "is broken" in one.output
    damage(prefix, 1)
    assert "none of the 2 checkpoints" in export(prefix, tmp_path / "none").output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "prefix"]


def test_a_wrong_command_writes_nothing(prefix: Path, tmp_path: Path) -> None:
    save(prefix, {"model": {"x": torch.ones(9), "y": {"z": torch.ones(1)}}, "odd": {"c": torch.ones(1).cdouble()}}, 1)
    said = export(prefix, tmp_path / "out", "--name", "ema")
    assert "there is nothing at 'ema'; there is model, odd" in said.output
    assert "there is nothing at 'model.q'" in export(prefix, tmp_path / "out", "--name", "model.q").output
    assert "c has the type complex128" in export(prefix, tmp_path / "out", "--name", "odd").output
    assert "'3' below" in export(prefix, tmp_path / "out", "--step", "3").output
    assert "not both" in export(prefix, tmp_path / "out", "--step", "1", "--best").output
    assert "names no metric" in export(prefix, tmp_path / "out", "--best").output
    assert "must be at least 1 byte" in export(prefix, tmp_path / "out", "--max-shard-size", "0").output
    (tmp_path / "there").mkdir()
    assert "exists already" in export(prefix, tmp_path / "there").output
    (tmp_path / "file").touch()
    assert "nothing was exported" in export(prefix, tmp_path / "file" / "out").output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "prefix", "there"]


# Breaks if Min and Max are taken for one another, or a checkpoint without the metric counts.
@pytest.mark.parametrize(("mode", "step"), [("Min", 20), ("Max", 30)])
def test_the_best_checkpoint(prefix: Path, mode: Any, step: int) -> None:
    save(prefix, {"model": {}}, 10, 20, 30, 40)
    found = survey(FolderStorage(prefix))
    measured = zip(found.state.commits, (None, "0.5", "2.5", "NaN"), strict=True)
    commits = tuple(replace(commit, metric_name="loss", metric=value) for commit, value in measured)
    known = replace(found, state=replace(found.state, commits=commits))
    keep = JobKeep(best=Best(metric="loss", mode=mode))
    assert choose(known, keep, None, best=True) == commits[step // 10 - 1].name
    assert choose(known, keep, None, best=False) is None
    with pytest.raises(CliError, match="has the metric eval/accuracy"):
        choose(known, JobKeep(best=Best(metric="eval/accuracy", mode=mode)), None, best=True)
    with pytest.raises(CliError, match=r"has no checkpoint\.keep\.best"):
        choose(known, JobKeep(), None, best=True)


# Breaks if a job that is ended from outside leaves half an export behind.
def test_sigterm_leaves_nothing(prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(prefix)
    monkeypatch.setattr(
        "holdfast_train.exchange.safetensors_files.write", lambda *_, **__: signal.raise_signal(signal.SIGTERM)
    )
    (tmp_path / "there").mkdir()
    assert export(prefix, tmp_path / "there" / "out").exit_code == ExitCode.INTERRUPTED
    assert list((tmp_path / "there").iterdir()) == []
