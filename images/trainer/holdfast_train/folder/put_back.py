"""Put a committed checkpoint back into the folder: under its own name only when it is whole."""

import errno
import os
import shutil
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.errors import EnvironmentVariableError, MisconfiguredStorageError, StorageFullError
from holdfast_train.folder import index
from holdfast_train.folder.index import Index, Piece
from holdfast_train.folder.layouts import Unit, find
from holdfast_train.folder.look import OWN, File, look
from holdfast_train.folder.marks import INCOMPLETE, is_marked
from holdfast_train.folder.pointers import put_pointers_back
from holdfast_train.format.manifest import OF_FOLDER, Part, check_chunks
from holdfast_train.storage.base import Storage
from holdfast_train.storage.folder import sync_folder

STAGE: Final = f"{OWN}put-back-"
TRAINER_FILES: Final = frozenset(
    ("training_args.bin", "scheduler.pt", "rng_state.pth", "model.safetensors", "trainer_state.json", INCOMPLETE)
)
THREADS: Final = 2  # parts in memory at once, of 64 MiB each


class NotFromFolderError(MisconfiguredStorageError):
    """A checkpoint was not saved with `checkpoint.folder`, so it has no files to put back."""

    reason = "CheckpointNotFromFolder"


def make_folder(root: Path) -> None:
    """Make `root` if it is missing, and delete what an earlier writer left. EnvironmentVariableError if that fails."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        for path in root.glob(f"{STAGE}*"):
            shutil.rmtree(path)
        probe = root / f"{STAGE}{uuid.uuid4().hex}"
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise EnvironmentVariableError(
            f"checkpoint.folder: cannot write to {root} ({error.strerror}); mount a volume there that the program's "
            f"user can write to, such as an emptyDir in trainer.volumes"
        ) from error


def read_index(storage: Storage, found: Found) -> Index:
    """The index of `found`. CheckpointCorruptError if it is broken, NotFromFolderError if it has none."""
    if OF_FOLDER not in found.manifest.program or not found.manifest.parts:
        raise NotFromFolderError(
            f"{found.uri} was not saved with checkpoint.folder, and has no files to put back; give the job a prefix of "
            f"its own (spec.checkpoint.storage), or leave out checkpoint.folder"
        )
    first, *rest = found.manifest.parts
    return index.decode(bytes(_read(storage, first)), rest)


def _read(storage: Storage, part: Part) -> bytearray:
    data = bytearray(part.size)
    with memoryview(data) as view:
        storage.read_into(part.key, 0, view)
        check_chunks(part, 0, view)
    return data


def put_back(storage: Storage, known: Index, root: Path) -> bool:
    """Put the files of `known` into `root`. False if they, or newer ones of the program, are there already.

    CheckpointCorruptError or KeyMissingError if the checkpoint is broken: then nothing in `root` has changed.
    StorageFullError if the folder has no room.
    """
    unit = known.unit
    present = look(root)
    there = next((u for u in find(present) if u.name == unit.name and u.is_folder), None) if unit.is_folder else None
    if unit.is_folder:
        inside = tuple(f for p, f in sorted(present.items()) if p.startswith(f"{unit.name}/"))
        is_same = {f.signature for f in inside} == {f.signature for f in unit.files}
        if is_same or (there is not None and is_marked(root, there)):
            return False
    stage = root / f"{STAGE}{uuid.uuid4().hex}"
    try:
        stage.mkdir()
        _fill(storage, known, stage)
        if unit.is_folder:
            _move_folder(stage, root, unit)
        else:
            _move_files(stage, root, unit, present)
        put_pointers_back(root, unit, known.pointers)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError(
                f"checkpoint.folder: {root} has no room for the checkpoint {unit.name or 'files'} of "
                f"{sum(f.size for f in unit.files)} bytes; give its volume more room"
            ) from error
        raise EnvironmentVariableError(
            f"checkpoint.folder: the checkpoint {unit.name!r} cannot be put back into {root}: {error.strerror}"
        ) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return True


def _fill(storage: Storage, known: Index, stage: Path) -> None:
    """Write all files below `stage`, with their times, and sync them."""
    for file in known.unit.files:
        target = stage / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.link is None:
            with target.open("xb") as new:
                new.truncate(file.size)

    def write(piece: Piece, part: Part) -> None:
        data, at = _read(storage, part), 0
        with memoryview(data) as view:
            for path, start, size in piece.spans:
                with (stage / path).open("r+b", buffering=0) as target:
                    done = 0
                    while done < size:
                        done += os.pwrite(target.fileno(), view[at + done : at + size], start + done)
                    os.fsync(target.fileno())
                at += size

    with ThreadPoolExecutor(THREADS, "holdfast-get") as pool:
        list(pool.map(write, index.cut(known.unit.files), known.parts))
    for file in known.unit.files:
        if file.link is not None:
            (stage / file.path).symlink_to(file.link)
        else:
            (stage / file.path).chmod(file.mode)
            os.utime(stage / file.path, ns=(file.mtime_ns, file.mtime_ns))


def _move_folder(stage: Path, root: Path, unit: Unit) -> None:
    target = root / unit.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() or target.is_symlink():
        _set_aside(target)
    (stage / unit.name).rename(target)
    sync_folder(target.parent)


def _move_files(stage: Path, root: Path, unit: Unit, present: dict[str, File]) -> None:
    """Each file by itself: a file that the program has written since stays if it is newer and whole."""
    for file in unit.files:
        old = present.get(file.path)
        newer = old is not None and old.mtime_ns > file.mtime_ns
        alone = Unit(unit.name, unit.layout, unit.step, (old,), False) if old is not None else None
        if old is not None and (old.signature == file.signature or (newer and alone and is_marked(root, alone))):
            continue
        target = root / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        (stage / file.path).replace(target)
        sync_folder(target.parent)


def set_aside_incomplete(root: Path) -> list[str]:
    """Rename folders `checkpoint-N` that are not complete, so that no program takes them for one. Returns their names.

    The program does not run yet: a folder that is not complete was left by a program that was killed.
    """
    moved = []
    for unit in find(look(root)):
        names = {file.path.rpartition("/")[2] for file in unit.files}
        if unit.layout == "HuggingFace" and names & TRAINER_FILES and not is_marked(root, unit):
            _set_aside(root / unit.name)
            moved.append(unit.name)
    return moved


def _set_aside(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.incomplete-{uuid.uuid4().hex[:8]}"))
