"""`holdfast checkpoints` from the command line, on a folder."""

import json
import os
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.trainer import stores
from tests.support.trainer.code import entries_of, write_tree
from tests.support.trainer.folders import SavedFolder, archive, hugging_face
from tests.support.trainer.stores import identity
from typer.testing import CliRunner, Result

from holdfast.api.job import Keep as JobKeep
from holdfast_cli.checkpoints.completion import checkpoints as complete
from holdfast_cli.checkpoints.prune_command import retention
from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app
from holdfast_cli.storage.address import Found, Where, find
from holdfast_protocol.settings import Keep
from holdfast_train.code.store import send
from holdfast_train.code.tree import tree_hash
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.commitlog.records import IMPORTED_NAMESPACE
from holdfast_train.environment import Identity
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.folder import FolderStorage


def holdfast(*args: str) -> Result:
    return CliRunner().invoke(app, ["checkpoints", *args])


def state(step: int, width: int = 8) -> dict[str, Any]:
    model = {"weight": np.full((4, width), step, "float32"), "bias": np.zeros(4, "float32")}
    return {"objects": {"model": model, "count": {"step": step}}}


@pytest.fixture
def folder(tmp_path: Path) -> FolderStorage:
    """Steps 10, 20 and 30 of attempt 1, which has the newest fence."""
    storage = FolderStorage(tmp_path / "runs" / "job")
    (tmp_path / "runs").mkdir()
    made = Checkpoints(storage, identity(1), Keep(9))
    made.start("Auto")
    stores.save(made, 10, state(10), [None])
    stores.save(made, 20, state(20), [None])
    stores.save(made, 30, state(30, width=16), [None])
    return storage


def attempt(folder: FolderStorage, number: int) -> Checkpoints:
    made = Checkpoints(folder, identity(number), Keep(9))
    made.start("Auto")
    return made


def path(folder: FolderStorage, what: str, step: int) -> Path:
    """The file of a checkpoint's data or manifest."""
    (key,) = folder.keys(f"{what}/{step:012d}")
    return Path(folder.uri.removeprefix("file://")) / key


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def test_list(folder: FolderStorage) -> None:
    result = holdfast("list", folder.uri)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[1:3] == ["owner  ns/job", "now    attempt 1 has the newest fence and may be training"]
    assert [line.split()[:2] for line in lines[6:]] == [["30", "1"], ["20", "1"], ["10", "1"]]
    assert "\x1b" not in result.output


def test_list_shows_every_state_of_a_checkpoint(folder: FolderStorage) -> None:
    """Breaks if a retired checkpoint, whose deletion was interrupted, passes for one that was never committed."""
    path(folder, "manifests", 30).unlink()
    old = path(folder, "data", 10).read_bytes(), path(folder, "manifests", 10).read_bytes()
    keys = folder.keys("data/000000000010") + folder.keys("manifests/000000000010")
    attempt(folder, 2).hand_over()
    assert holdfast("prune", folder.uri, "--keep-last", "1", "--yes").exit_code == 0
    for key, data in zip(keys, old, strict=True):
        folder.put(key, data)
    folder.put("data/000000000025-a2-0123456789ab/r0.0", b"x")
    folder.put("manifests/000000000026-a2-0123456789ab.json", b"{}")
    found = json.loads(holdfast("list", folder.uri, "-o", "json").output)
    assert {c["step"]: (c["state"], c["note"]) for c in found["checkpoints"]} == {
        30: ("damaged", "its manifest is missing"),
        20: ("ok", None),
        10: ("retired", None),
        25: ("uncommitted", "no manifest"),
        26: ("uncommitted", None),
    }
    assert (found["owner"]["job"], found["mayBeTraining"], found["handedOver"]) == ("job", False, True)


def test_list_of_a_job_that_was_created_anew(folder: FolderStorage) -> None:
    again = Checkpoints(folder, identity(1, uid="uid-2"), Keep(9))
    again.start("Never")
    stores.save(again, 5, state(5), [None])
    again.complete(5)
    result = holdfast("list", folder.uri)
    assert "owner  ns/job, created again once" in result.output
    assert "complete at step 5" in result.output
    assert [line.split()[0] for line in result.output.splitlines() if "set aside" in line] == ["30", "20", "10"]


def test_show(folder: FolderStorage) -> None:
    result = holdfast("show", folder.uri, "20")
    assert result.exit_code == 0, result.output
    assert "000000000020-a1-" in result.output
    assert "in 1 part, 2 tensors" in result.output
    assert max(len(line) for line in result.output.splitlines()) < 100  # no blanks up to the end of the line
    found = json.loads(holdfast("show", folder.uri, "20", "-o", "json").output)
    assert found["objects"] == [
        {"name": "model", "tensors": 2, "size": 4 * 8 * 4 + 16},
        {"name": "count", "tensors": 0, "size": 0},
    ]
    assert found["versions"]["numpy"] == np.__version__


def test_show_lists_tensors_by_the_start_of_their_names(folder: FolderStorage) -> None:
    every = holdfast("show", folder.uri, "--tensors").output
    some = holdfast("show", folder.uri, "--under", "model/w").output
    assert ("model/weight" in every, "model/bias" in every) == (True, True)
    assert ("model/weight" in some, "model/bias" in some) == (True, False)
    assert some.splitlines()[2].split() == ["model/weight", "numpy", "<f4", "[4,", "16]", "256"]
    assert holdfast("show", folder.uri, "--under", "model.w").output == some
    for more in ([], ["-o", "json"]):
        nothing = holdfast("show", folder.uri, "--under", "x", *more)
        assert nothing.exit_code == ExitCode.NOT_FOUND
        assert "begins with x; its objects are model, count" in nothing.output


@pytest.mark.parametrize("text", ["20", "latest", "000000000020-a1", "address"])
def test_a_checkpoint_is_named_in_many_ways(folder: FolderStorage, text: str) -> None:
    name = path(folder, "manifests", 20).stem
    words = [f"{folder.uri}/manifests/{name}.json"] if text == "address" else [folder.uri, text]
    found = json.loads(holdfast("show", *words, "-o", "json").output)
    assert found["step"] == (30 if text == "latest" else 20)


def test_a_checkpoint_that_is_not_there(folder: FolderStorage) -> None:
    result = holdfast("show", folder.uri, "25")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "there is no checkpoint '25' below" in result.output
    assert "committed steps: 10, 20, 30" in result.output
    assert "hint:  give one of these steps, latest, or a name or its start" in result.output
    attempt(folder, 2).complete(30)
    assert holdfast("prune", folder.uri, "--keep-last", "1", "--yes").exit_code == 0
    assert "committed step: 30" in holdfast("show", folder.uri, "25").output


def test_verify_names_what_is_damaged_and_ends_with_1(folder: FolderStorage) -> None:
    assert holdfast("verify", folder.uri, "--all").exit_code == 0
    flip(path(folder, "data", 20), 5)
    flip(path(folder, "manifests", 10), 40)
    assert holdfast("verify", folder.uri).exit_code == 0  # the newest
    result = holdfast("verify", folder.uri, "--all")
    assert result.exit_code == ExitCode.FAILED
    assert result.output.count("intact ") == 1
    found = json.loads(holdfast("verify", folder.uri, "--all", "-o", "json").output)
    damages = [damage for checkpoint in found["checkpoints"] for damage in checkpoint["damages"]]
    assert [(d["key"].partition("-")[0], d["chunk"]) for d in damages] == [
        ("data/000000000020", 0),
        ("manifests/000000000010", None),
    ]
    assert found["intact"] is False


def test_verify_of_one_and_all(folder: FolderStorage) -> None:
    for words in ([folder.uri, "20"], [f"{folder.uri}/manifests/{path(folder, 'manifests', 20).name}"]):
        result = holdfast("verify", *words, "--all")
        assert (result.exit_code, "--all means all of them" in result.output) == (2, True)


def test_list_of_what_was_imported(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    made = Checkpoints(storage, Identity(IMPORTED_NAMESPACE, "import", "uid", 1, "pod"), Keep(9))
    made.log.claim()
    assert "now    an import writes here, or was interrupted" in holdfast("list", storage.uri).output
    stores.save(made, 10, state(10), [None])
    made.hand_over()
    result = holdfast("list", storage.uri)
    assert result.output.splitlines()[1] == "now    imported; no job writes here"
    assert "owner" not in result.output


def test_verify_holds_the_manifest_against_the_log(folder: FolderStorage) -> None:
    """Breaks if a manifest that is valid in itself passes, though another one was committed."""
    twenty, ten = path(folder, "manifests", 20), path(folder, "manifests", 10)
    twenty.write_bytes(ten.read_bytes())
    result = holdfast("verify", folder.uri, "20")
    assert result.exit_code == ExitCode.FAILED
    assert "not the manifest that was committed" in result.output


def test_quarantine_is_shown_and_taken_back_while_nothing_trains(folder: FolderStorage) -> None:
    newest = attempt(folder, 2)
    seq = newest.log.state.commits[-1].seq
    newest.log.quarantine(corrupt=(seq,))
    listed = json.loads(holdfast("list", folder.uri, "-o", "json").output)
    assert [c["state"] for c in listed["checkpoints"]] == ["corrupt", "ok", "ok"]
    result = holdfast("verify", folder.uri)
    assert (result.exit_code, "it is in quarantine" in result.output) == (0, True)
    refused = holdfast("verify", folder.uri, "--take-back")
    assert refused.exit_code != 0
    assert "attempt 2 (pod pod-uid-1-2) may be training" in refused.output
    newest.hand_over()
    flip(path(folder, "data", 30), 5)
    assert holdfast("verify", folder.uri, "--take-back").exit_code == ExitCode.FAILED
    assert "corrupt" in holdfast("list", folder.uri).output
    flip(path(folder, "data", 30), 5)
    taken = holdfast("verify", folder.uri, "--all", "--take-back", "-o", "json")
    assert [c["inQuarantine"] for c in json.loads(taken.output)["checkpoints"]] == [False] * 3
    assert "corrupt" not in holdfast("list", folder.uri).output
    again = holdfast("verify", folder.uri, "--take-back")
    assert (again.exit_code, "nothing was taken out of quarantine" in again.output) == (0, True)


def test_diff(folder: FolderStorage) -> None:
    result = holdfast("diff", folder.uri, "10", "30")
    assert "model/weight  numpy <f4 [4, 8] -> numpy <f4 [4, 16]" in result.output
    assert "1 have the same name, type and shape (--values" in result.output
    found = json.loads(holdfast("diff", folder.uri, "10", "20", "--values", "-o", "json").output)
    assert found["bytesDiffer"] == ["model/weight"]
    assert found["plainValues"] == [{"name": "count/step", "first": "10", "second": "20"}]
    assert (found["added"], found["removed"], found["changed"], found["facts"]) == ([], [], [], [])


def test_prune_of_what_was_cut_off(folder: FolderStorage) -> None:
    attempt(folder, 2)
    name = "000000000025-a1-0123456789ab"
    folder.put(f"data/{name}/r0.0", b"x" * 100)
    folder.put(f"manifests/{name}.json", b"{}")
    assert "written too recently" in holdfast("prune", folder.uri, "--yes").output
    long_ago = time.time() - 2 * 86400
    for file in (path(folder, "data", 25), path(folder, "manifests", 25)):
        os.utime(file, (long_ago, long_ago))
    assert "1 would be deleted" in holdfast("prune", folder.uri, "--dry-run").output
    refused = holdfast("prune", folder.uri)
    assert (refused.exit_code, "no terminal to ask on" in refused.output) == (ExitCode.FAILED, True)
    assert folder.keys(f"data/{name}/")
    records = folder.keys("log/")
    assert holdfast("prune", folder.uri, "--yes").exit_code == 0
    assert not folder.keys(f"data/{name}/") + folder.keys(f"manifests/{name}")
    assert folder.keys("log/") == records  # nothing committed has changed, so that training need not hear of it


def test_prune_of_commits_waits_for_the_end(folder: FolderStorage) -> None:
    refused = holdfast("prune", folder.uri, "--keep-last", "1", "--yes")
    assert refused.exit_code == ExitCode.FAILED
    assert "attempt 1 may be training" in refused.output
    last = attempt(folder, 2)
    last.complete(30)
    result = holdfast("prune", folder.uri, "--keep-last", "1", "--yes", "-o", "json")
    assert [item["step"] for item in json.loads(result.output)["deleted"]] == [10, 20]
    assert len(folder.keys("data/")) == len(folder.keys("manifests/")) == 1
    assert holdfast("verify", folder.uri, "--all").exit_code == 0


def test_prune_wants_to_know_how_many(folder: FolderStorage) -> None:
    assert holdfast("prune", folder.uri, "--keep-every", "24h").exit_code == 2
    assert holdfast("prune", folder.uri, "--older-than", "soon").exit_code == 2


def test_retention_is_filled_up_from_the_job() -> None:
    """Breaks if `--keep-last 1` drops the milestones that the job says are kept for good."""
    job = Found("s3://b/p", keep=JobKeep(last=5, every=timedelta(hours=24)))
    assert retention(job, None, None) is None
    assert retention(job, 1, None) == Keep(1, 86400)
    assert retention(job, 1, timedelta(0)) == Keep(1, None)
    assert retention(job, None, timedelta(hours=1)) == Keep(5, 3600)
    assert retention(Found("file:///f"), 2, None) == Keep(2, None)


def test_a_place_without_a_log(tmp_path: Path) -> None:
    result = holdfast("list", f"file://{tmp_path}")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "no attempt has started yet" in result.output
    result = holdfast("list", "ftp://x")
    assert (result.exit_code, "allowed: s3://bucket/prefix" in result.output) == (ExitCode.USAGE, True)


def test_a_folder_by_its_path(folder: FolderStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    there = Path(folder.uri.removeprefix("file://"))
    manifest = path(folder, "manifests", 20).relative_to(there.parent)
    monkeypatch.setenv("HOME", str(there.parent))
    monkeypatch.chdir(there.parent)
    for place in (str(there), "./job", "job/", "~/job", f"{manifest}"):
        found = find(Where(place))
        name = CheckpointName.parse(manifest.stem) if place.endswith("json") else None
        assert (found.uri, found.name) == (folder.uri, name)
    monkeypatch.chdir(there)
    assert "owner  ns/job" in holdfast("list", ".").output


def test_a_log_that_cannot_be_read(folder: FolderStorage) -> None:
    newest = Path(folder.uri.removeprefix("file://")) / folder.keys("log/")[-1]
    whole = newest.read_bytes()
    for content, what in ((b"{", "is not a record"), (whole.replace(b'"ns"', b'"sn"'), "is damaged: its hash is")):
        newest.write_bytes(content)
        result = holdfast("list", folder.uri)
        assert result.exit_code == ExitCode.FAILED
        assert f"{folder.uri}: log/000000000005.json {what}" in result.output
        assert "restore a copy of that object, or an older version if the bucket keeps versions" in result.output
        assert f"addresses of their manifests, {folder.uri}/manifests/NAME.json: with holdfast-train" in result.output


@pytest.mark.parametrize("command", ["list", "show", "verify", "diff", "prune"])
def test_every_command_has_help(command: str) -> None:
    result = holdfast(command, "--help")
    assert (result.exit_code, "Usage: " in result.output) == (0, True)


class Context:
    """What a completion sees of the command line."""

    def __init__(self, *args: str, **params: Any) -> None:
        self.args, self.params = list(args), params


def test_completion_of_steps(folder: FolderStorage, tmp_path: Path) -> None:
    context: Any = Context(place=folder.uri)
    assert complete(context, "") == ["latest", "30", "20", "10"]
    assert complete(context, "2") == ["20"]
    unparsed: Any = Context("-n", "demo", folder.uri)
    assert complete(unparsed, "3") == ["30"]
    nowhere: Any = Context(place=f"file://{tmp_path}/none")
    assert complete(nowhere, "") == ["latest"]


# Breaks if a checkpoint of checkpoint.folder, which has files and no tensors, cannot be looked at.
def test_a_checkpoint_of_a_folder(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path, keep=9)
    storage = place.storage
    for step in (10, 20, 30):
        hugging_face(place.root, step)
        place.commit()
    shown = holdfast("show", storage.uri)
    assert shown.exit_code == 0, shown.output
    assert "checkpoint-30" in shown.output
    assert "unchanged files" in shown.output
    assert not any(word in shown.output for word in ("frozen", "OBJECTS"))
    told = json.loads(holdfast("show", storage.uri, "-o", "json").output)
    assert told["step"] == 30
    refused = holdfast("show", storage.uri, "--under", "model")
    assert refused.exit_code == ExitCode.NOT_FOUND
    for command in ("list", "verify"):
        done = holdfast(command, storage.uri)
        assert done.exit_code == 0, done.output
        assert "000000000030-a1" in done.output


# Breaks if the files of a commit cannot be seen, in the order in which they changed, or if an odd one hides them all.
def test_the_files_of_a_folder(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    storage, path = place.storage, hugging_face(place.root, 10)
    (path / "last").symlink_to("model.safetensors")
    (path / os.fsdecode(b"odd\xff.txt")).write_text("its name is not UTF-8")
    for number, name in enumerate(("model.safetensors", "trainer_state.json", "tokenizer.json")):
        os.utime(path / name, (2_000_000_000 - number, 2_000_000_000 - number))
    place.commit()
    files = json.loads(holdfast("show", storage.uri, "-o", "json").output)["files"]
    assert [(one["path"], one["size"], one["at"]) for one in files[:2]] == [
        ("checkpoint-10/model.safetensors", 1_500_000, "2033-05-18T03:33:20Z"),
        ("checkpoint-10/trainer_state.json", (path / "trainer_state.json").stat().st_size, "2033-05-18T03:33:19Z"),
    ]
    assert {one["path"]: one["link"] for one in files}["checkpoint-10/last"] == "model.safetensors"
    assert "checkpoint-10/odd?.txt" in {one["path"] for one in files}
    shown = holdfast("show", storage.uri, "10").output
    assert "6 FILES" in shown
    assert shown.index("model.safetensors ") < shown.index("trainer_state.json") < shown.index("tokenizer.json")
    assert "last -> model.safetensors" in shown


# Breaks if --code writes other files than the program had, or writes into a folder that has files.
def test_the_code_of_a_checkpoint(tmp_path: Path) -> None:
    entries = write_tree(tmp_path / "program", {"train.py": "print()", "src/model.py": "", "last": "-> train.py"})
    place = SavedFolder(tmp_path, code={"code": tree_hash(entries)})
    send(place.storage, tmp_path / "program", entries)
    hugging_face(place.root, 10)
    place.commit()
    back = tmp_path / "new/back"
    done = holdfast("show", place.storage.uri, "--code", str(back))
    assert done.exit_code == 0, done.output
    assert entries_of(back) == entries
    refused = holdfast("show", place.storage.uri, "--code", str(back))
    assert (refused.exit_code, "is not empty" in refused.stderr) == (ExitCode.USAGE, True)


# Breaks if a checkpoint without code writes an empty folder, as if there had been no files.
def test_a_checkpoint_without_code(folder: FolderStorage, tmp_path: Path) -> None:
    refused = holdfast("show", folder.uri, "--code", str(tmp_path / "back"))
    assert (refused.exit_code, "had no trainer.code" in refused.stderr) == (ExitCode.NOT_FOUND, True)
    assert not (tmp_path / "back").exists()


# Breaks if a command says step 0, which no name says, or cannot name such a checkpoint.
def test_no_command_says_a_step_that_no_name_says(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path, keep=9)
    storage = place.storage
    for text in (b"first", b"second"):
        archive(place.root / "last.ckpt", text)
        place.commit()
    older, newer = (str(commit.name) for commit in place.checkpoints.log.state.commits)
    for args in (("show", storage.uri), ("diff", storage.uri, older, newer), ("list", storage.uri)):
        done = holdfast(*args)
        assert not re.search(r"(?i)step +0|^0 ", done.output, re.MULTILINE), done.output
    unknown = holdfast("show", storage.uri, "500").output
    assert "none of its checkpoints has a step" in " ".join(unknown.split())
    back = CliRunner().invoke(app, ["rollback", storage.uri, "--to", older, "--yes"]).output
    assert "left behind: 1 checkpoint\n" in back
    assert f"the next attempt continues from the checkpoint {older}" in " ".join(back.split())
    assert "rolled back to a checkpoint without a step" in holdfast("list", storage.uri).output
    SavedFolder(tmp_path, keep=9, attempt=2).checkpoints.complete(0)
    listed = json.loads(holdfast("list", storage.uri, "-o", "json").output)
    assert (listed["complete"], listed["completeAtStep"]) == (True, None)
    assert {checkpoint["step"] for checkpoint in listed["checkpoints"]} == {None}
