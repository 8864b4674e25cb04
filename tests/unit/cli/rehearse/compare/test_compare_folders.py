"""Folders of three runs, file by file."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from tests.support.rehearsed import left
from torch.distributed import checkpoint

from holdfast_cli.rehearse.compare import compare_file
from holdfast_cli.rehearse.compare import compare_folders as compare_module
from holdfast_cli.rehearse.compare.compare_folders import compare_folders
from holdfast_cli.rehearse.compare.difference import Effort
from holdfast_cli.rehearse.compare.findings import File, Kind, Standing
from holdfast_cli.rehearse.compare.words import differences, notes
from holdfast_cli.rehearse.left import Left

SAVES = ("checkpoint-40", "checkpoint-60")


def run(place: Path, name: str, saves: tuple[str, ...] = SAVES) -> Left:
    """A run with a file in each save, and a log."""
    root = place / name
    for save in saves:
        (root / save).mkdir(parents=True)
        save_file({"w": np.full(4, float(save[-2:]), "f4")}, root / save / "model.safetensors")
    (root / "log.txt").write_text("done\n")
    return left(name, root, saves=saves)


def compared(
    place: Path,
    change: Callable[[Path], object],
    saves: tuple[str, ...] = SAVES,
    ignore: tuple[str, ...] = (),
    *,
    written: frozenset[str] = frozenset(),
) -> dict[str, File]:
    """What is found after `change` of the folder of the rehearsed run. `written`: saves that the reference has had."""
    runs = [replace(run(place, "reference"), written=written), run(place, "again"), run(place, "rehearsed", saves)]
    change(place / "rehearsed")
    found = compare_folders(runs[0], runs[1], runs[2], ignore, Effort())
    return {file.path: file for file in found}


# Breaks if equal files are not equal, or if the newest save is not known.
def test_equal_folders(tmp_path: Path) -> None:
    found = compared(tmp_path, lambda root: None)
    assert {file.standing for file in found.values()} == {Standing.EQUAL}
    assert {path for path, file in found.items() if file.is_newest} == {"checkpoint-60/model.safetensors"}
    assert found["checkpoint-60/model.safetensors"].equal == {Kind.WEIGHT: 1}


# Breaks if an older save that made room for the save on the notice is missing, or if the newest one is not.
def test_missing_files(tmp_path: Path) -> None:
    found = compared(tmp_path / "a", lambda root: None, ("checkpoint-50", "checkpoint-60"))
    assert found["checkpoint-40/model.safetensors"].standing is Standing.NOTED
    assert found["checkpoint-50/model.safetensors"].standing is Standing.EXTRA
    written = frozenset(("checkpoint-40", "checkpoint-50", "checkpoint-60"))
    found = compared(tmp_path / "d", lambda root: None, ("checkpoint-50", "checkpoint-60"), written=written)
    assert found["checkpoint-40/model.safetensors"].standing is Standing.MISSING, "another save of the same run is kept"
    found = compared(tmp_path / "e", lambda root: None, ("checkpoint-60", "checkpoint-61"))
    assert found["checkpoint-40/model.safetensors"].standing is Standing.NOTED, "it trained on after its last save"
    found = compared(tmp_path / "b", lambda root: None, ("checkpoint-40",))
    assert found["checkpoint-60/model.safetensors"].standing is Standing.MISSING
    found = compared(tmp_path / "c", lambda root: (root / "log.txt").unlink())
    assert found["log.txt"].standing is Standing.MISSING


# Breaks if the content of links is followed, or if a link to another place is equal.
def test_links(tmp_path: Path) -> None:
    for name in ("reference", "again", "rehearsed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "last").symlink_to(tmp_path / name / "checkpoint-60")
        (tmp_path / name / "outside").symlink_to("/etc/passwd")
    found = compared(tmp_path, lambda root: None)
    assert (found["last"].standing, found["last"].form) == (Standing.EQUAL, "link")
    again = tmp_path / "rehearsed" / "last"
    again.unlink()
    again.symlink_to("checkpoint-40")
    shutil.rmtree(tmp_path / "reference" / "checkpoint-60")
    runs = [left(name, tmp_path / name) for name in ("reference", "again", "rehearsed")]
    files = compare_folders(runs[0], runs[1], runs[2], (), Effort())
    (link,) = [file for file in files if file.path == "last"]
    assert (link.standing, link.places[0].first, link.places[0].second) == (
        Standing.DIFFERS, "checkpoint-60", "checkpoint-40",
    )  # fmt: skip


# Breaks if `ignore` means another thing than checkpoint.exclude.
@pytest.mark.parametrize("pattern", ["*.txt", "log.txt"])
def test_ignore(tmp_path: Path, pattern: str) -> None:
    found = compared(tmp_path, lambda root: (root / "log.txt").write_text("other"), ignore=(pattern,))
    assert "log.txt" not in found


# Breaks if a pipe, or a file that cannot be read, raises or is waited for.
def test_a_pipe(tmp_path: Path) -> None:
    def change(root: Path) -> None:
        for name in ("reference", "again", "rehearsed"):
            os.mkfifo(root.parent / name / "pipe")

    assert "pipe" not in compared(tmp_path, change)


# Breaks if only the last of the tensors in a file of torch.distributed.checkpoint is compared, or if nothing names it.
def test_torch_distributed_checkpoint(tmp_path: Path) -> None:
    runs = []
    for name, last in (("reference", 5.0), ("again", 5.0), ("rehearsed", 5.5)):
        saved = {"a": torch.tensor([1.0, last]), "b": torch.ones(3)}
        checkpoint.save(saved, checkpoint_id=tmp_path / name / "step-60", no_dist=True)
        runs.append(left(name, tmp_path / name, saves=("step-60",)))
    files = compare_folders(runs[0], runs[1], runs[2], (), Effort())
    (file,) = [file for file in files if file.path.endswith(".distcp")]
    assert (file.form, file.is_state, "more than one archive" in file.note) == ("bytes", True, True)
    (line,) = differences((), [file])
    assert line.startswith("1 of 1 value of step-60/__0_0.distcp differs: (all bytes) has other bytes from byte ")


# Breaks if the option that names the save to go on from counts as a difference, or if any other text does not.
@pytest.mark.parametrize(
    ("text", "standing"), [("/outputs/checkpoint-40", Standing.NOTED), ("/outputs/model", Standing.DIFFERS)]
)
def test_the_option_that_names_the_save(tmp_path: Path, text: str, standing: Standing) -> None:
    runs = [run(tmp_path, "reference"), run(tmp_path, "again"), run(tmp_path, "rehearsed")]
    runs[2] = replace(runs[2], written=frozenset(SAVES))
    for one, value in zip(runs, (None, None, text), strict=True):
        torch.save({"resume_from_checkpoint": value}, one.folders[0] / "args.bin")
    found = {file.path: file for file in compare_folders(runs[0], runs[1], runs[2], (), Effort())}["args.bin"]
    assert (found.standing, found.places[0].standing) == (standing, standing)
    words = "resume_from_checkpoint of args.bin names the save from which the program went on, so this is not compared"
    assert (list(notes((), [found])) == [words]) is (standing is Standing.NOTED)


# Breaks if a folder that is gone raises.
def test_no_folder(tmp_path: Path) -> None:
    runs = [run(tmp_path, "reference"), run(tmp_path, "again"), left("rehearsed", tmp_path / "gone")]
    (found,) = compare_folders(runs[0], runs[1], runs[2], (), Effort())
    assert (found.path, found.standing, "gone" in found.note) == ("the folder", Standing.NOT_COMPARED, True)


# Breaks if a file that cannot be read, is beyond the limit, or makes the comparison fail counts as equal.
def test_files_that_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = "log.txt"
    with monkeypatch.context() as patch:
        patch.setattr(compare_file, "difference", Mock(side_effect=TypeError("no")))
        found = compared(tmp_path / "a", lambda root: None)[log]
    assert (found.standing, found.note) == (Standing.NOT_COMPARED, "TypeError while its values are compared")
    with monkeypatch.context() as patch:
        patch.setattr(compare_module, "read", Mock(side_effect=OSError(5, "Input/output error")))
        found = compared(tmp_path / "b", lambda root: None)[log]
    assert (found.standing, found.note) == (Standing.NOT_COMPARED, "Input/output error")
    monkeypatch.setattr(compare_module, "MOST_FILES", 2)
    found = compared(tmp_path / "c", lambda root: None)[log]
    assert (found.standing, found.note) == (Standing.NOT_COMPARED, "there are more than 2 files")


# Breaks if the folders of one node more, in one of the runs, count as equal.
def test_another_number_of_nodes(tmp_path: Path) -> None:
    runs = [run(tmp_path, name) for name in ("reference", "again", "rehearsed")]
    more = replace(runs[2], folders=(*runs[2].folders, tmp_path))
    first = compare_folders(runs[0], runs[1], more, (), Effort())[0]
    assert (first.standing, "different numbers of nodes" in first.note) == (Standing.NOT_COMPARED, True)
