"""Example output for docs/reference/cli.md, made by the commands' own code from an invented storage."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Final

from rich.console import Console

from holdfast_cli.checkpoints import list_command, verify_command
from holdfast_cli.checkpoints.damage import Damage
from holdfast_cli.checkpoints.pick import Selected
from holdfast_cli.checkpoints.survey import Objects, Prefix, rows
from holdfast_cli.checkpoints.verify_command import Verdict
from holdfast_train.commitlog.records import Commit, Fence, LogState, Owner
from holdfast_train.format.manifest import PART_BYTES, Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Entry
from holdfast_train.storage.checksums import CHUNK_BYTES

WIDTH: Final = 100
NOW: Final = datetime(2026, 11, 21, 9, tzinfo=UTC)
SIZE: Final = 1_471_152_640


def _commit(seq: int, step: int, attempt: int, nonce: str, ago: timedelta) -> Commit:
    return Commit(seq, step, attempt, (NOW - ago).isoformat(), CheckpointName(step, attempt, nonce), "", SIZE)


def _objects(name: CheckpointName, size: int, ago: timedelta, *, manifest: bool = True) -> Objects:
    data = (Entry(name.part_key(0, 0), size, NOW - ago),)
    found = Entry(name.manifest_key, 9000, NOW - ago) if manifest else None
    return Objects(name, data, found)


COMMITS: Final = (
    _commit(5, 46000, 3, "51c0a9d2e7f4", timedelta(minutes=41)),
    _commit(7, 47000, 4, "9be2f0713c66", timedelta(minutes=22)),
    _commit(8, 48000, 4, "d07a4418b95e", timedelta(minutes=3)),
)
INTERRUPTED: Final = CheckpointName(46500, 3, "7f23ab90c1d4")


def listing() -> str:
    """`holdfast checkpoints list`."""
    there = {c.name: _objects(c.name, SIZE, timedelta(minutes=9)) for c in COMMITS}
    there[INTERRUPTED] = _objects(INTERRUPTED, 402_653_184, timedelta(minutes=34), manifest=False)
    state = LogState(8, Owner(1, "vision", "vit-faces", "uid"), fence=Fence(6, 4, "pod", "nonce"), commits=COMMITS)
    prefix = Prefix("s3://runs/vision/vit-faces", state, there)
    return _printed(lambda out: list_command.show(out, prefix, rows(prefix, frozenset()), NOW))


def damage() -> str:
    """`holdfast checkpoints verify --all` with one damaged chunk."""
    verdicts = []
    for commit in reversed(COMMITS):
        sizes = [min(PART_BYTES, SIZE - at) for at in range(0, SIZE, PART_BYTES)]
        parts = tuple(Part(commit.name.part_key(0, n), size, CHUNK_BYTES, ()) for n, size in enumerate(sizes))
        found = Manifest(commit.name, commit.step, commit.attempt, "", "", {}, {}, {}, parts, (), None, ())
        what = "bytes 12582912-16777215 have the CRC 5cef2d276dd7cc66, not d837e2e07d9ce8ee"
        damages = (Damage(parts[17].key, what, 3),) if commit.step == 47000 else ()
        verdicts.append(Verdict(Selected(commit.name, commit), found, damages))
    return _printed(lambda out: verify_command.show(out, verdicts))


def _printed(show: Callable[[Console], None]) -> str:
    text = StringIO()
    show(Console(file=text, width=WIDTH, highlight=False))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())
