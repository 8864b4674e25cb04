"""The progress report of a pod: its senders, and its limits. `POST .../progress` has it as a JSON object.

Four programs of a pod may report. The library, which trains, knows everything. Of a program without the library, the
launcher relays steps and figures, and the writer of checkpoint.folder knows checkpoints. The stager copies the data
before the program starts. The operator keeps the newest of each, and derives one view.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from . import document as kind
from . import figures as table
from .document import REQUIRED, DocumentError, decode
from .figures import Figures
from .tracking import MAX_TRACKERS, TRACKER_NAME, checked_url

VERSION = 1

Sender = Literal["Library", "Relay", "Folder", "Stager"]
LIBRARY: Final = "Library"
RELAY: Final = "Relay"
FOLDER: Final = "Folder"
STAGER: Final = "Stager"
OBEY: Final = (LIBRARY, FOLDER)  # the others do not know orders
State = Literal["waiting", "starting", "training", "saving", "left", "completed"]

MAX_BODY: Final = 64 * 1024  # bytes
MAX_METRICS: Final = 16  # beside the figures
METRIC_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@-]{0,63}")
MAX_LINE: Final = 256  # characters of a reason
MAX_NOTE: Final = 1024  # characters of what is different after a resume
MAX_SLOW_RANKS: Final = 8
EVERY_SECONDS: Final = 15.0  # between reports, until the operator sets another interval
MAX_NODES: Final = 1024
MAX_RANKS: Final = MAX_NODES * 1024  # more than the nodes of an attempt can have
MAX_SIZE: Final = 2**63 - 1  # bytes
MAX_URI: Final = 2048  # characters


@dataclass(frozen=True)
class FirstStep:
    """The first step that this process trained."""

    step: int = kind.whole(REQUIRED)
    """Its number."""
    seconds_ago: str = kind.checked(table.decimal, REQUIRED)
    """When that was, by the pod's own clock."""


@dataclass(frozen=True)
class Resumed:
    """The checkpoint that training resumed from."""

    step: int = kind.whole(REQUIRED)
    """Its step."""
    uri: str = kind.text(REQUIRED, least=0, most=MAX_URI)
    """Its address."""
    note: str = kind.text("", least=0, most=MAX_NOTE)
    """What is different, for people."""


@dataclass(frozen=True)
class Saved:
    """The newest checkpoint that this pod committed."""

    uri: str = kind.text(REQUIRED, least=0, most=MAX_URI)
    """Its address."""
    bytes: int = kind.whole(REQUIRED, most=MAX_SIZE)
    """Its size."""
    seconds: str = kind.checked(table.decimal, REQUIRED)
    """From the beginning of the save to its commit."""
    committed_at: str = kind.moment(REQUIRED)
    """When it was committed."""
    step: int | None = kind.whole()
    """Its step; not set if nothing says the step of a folder."""


@dataclass(frozen=True)
class Silence:
    """A storage that does not answer."""

    seconds: str = kind.checked(table.decimal, REQUIRED)
    """For how long, by the pod's own clock."""
    why: str = kind.text(REQUIRED, most=MAX_LINE)
    """What the newest call got."""


@dataclass(frozen=True)
class Staging:
    """How far trainer.data is, in bytes."""

    bytes: int = kind.whole(REQUIRED, most=MAX_SIZE)
    """What is there."""
    total: int = kind.whole(REQUIRED, most=MAX_SIZE)
    """All of it."""
    over: bool = kind.flag()
    """The program starts."""


@dataclass(frozen=True)
class SlowRank:
    """A rank that is slower than the others, as rank 0 tells it."""

    rank: int = kind.whole(REQUIRED, most=MAX_RANKS - 1)
    """Its number."""
    pod: int = kind.whole(REQUIRED, most=MAX_NODES - 1)
    """Rank of its pod."""
    own_seconds: str = kind.checked(table.decimal, REQUIRED)
    """How long it works in a step before it needs the others."""
    others_seconds: str = kind.checked(table.decimal, REQUIRED)
    """The same, as median of the others."""
    step_seconds: str = kind.checked(table.decimal, REQUIRED)
    """How long a step takes."""


@dataclass(frozen=True)
class ProgressReport:
    """What one program of a pod reports. Numbers that are not counts are decimal strings."""

    sender: Sender = kind.choice(REQUIRED, LIBRARY, RELAY, FOLDER, STAGER)
    """`Library`; `Relay`, `Folder`: the launcher for a program without it; `Stager`: copies `trainer.data`."""
    attempt: int = kind.whole(REQUIRED, least=1, most=2**31 - 1)
    """The attempt that it works for."""
    pod_uid: str = kind.text(REQUIRED, most=64, form="[A-Za-z0-9._-]+")
    """UID of its pod."""
    state: State = kind.choice(REQUIRED, "waiting", "starting", "training", "saving", "left", "completed")
    """What it does: `waiting` (at the fence), `starting`, `training`, `saving`, `left`, `completed`."""
    step: int | None = kind.whole()
    """The newest step."""
    steps: int | None = kind.whole()
    """Steps of the whole training."""
    first_step: FirstStep | None = kind.part(FirstStep)
    """The first step that this process trained."""
    figures: Figures = kind.made(table.decode, table.UNKNOWN)
    """The [figures](metrics.md) of the program that are known."""
    metrics: Mapping[str, str] = kind.named(table.loss, most=MAX_METRICS, name=METRIC_NAME)
    """Other metrics of the program, by name."""
    fenced: bool = kind.flag()
    """It owns the checkpoints."""
    resumed_from: Resumed | None = kind.part(Resumed)
    """The checkpoint that it resumed from."""
    checkpoint: Saved | None = kind.part(Saved)
    """The newest checkpoint that it committed."""
    save_error: str | None = kind.text(least=0, most=MAX_LINE)
    """Why the newest save failed."""
    storage_silence: Silence | None = kind.part(Silence)
    """Set while the storage of checkpoints does not answer."""
    memory_warning: str | None = kind.text(least=0, most=MAX_LINE)
    """Why a save may need more memory than there is."""
    slow_ranks: tuple[SlowRank, ...] = kind.parts(SlowRank, most=MAX_SLOW_RANKS)
    """Ranks that are slower than the others."""
    tracking: Mapping[str, str] = kind.named(checked_url, most=MAX_TRACKERS, name=TRACKER_NAME)
    """Web address of the job's run in an experiment tracker, by the tracker: `mlflow`, `wandb`."""
    acknowledged: int = kind.whole(0)
    """The highest number of an order that it knows."""
    pid: int = kind.whole(0, most=2**31 - 1)
    """Of its process."""
    staging: Staging | None = kind.part(Staging)
    """How far the data is."""
    sent_at: str | None = kind.moment()
    """When this was sent, by the pod's own clock."""
    version: int = kind.version(VERSION)
    """Version of this document."""


def read(given: object) -> ProgressReport:
    """The report in decoded JSON. DocumentError names the field that is wrong."""
    found = decode(ProgressReport, given)
    ranks = [one.rank for one in found.slow_ranks]
    if len(set(ranks)) < len(ranks):  # the status is keyed by rank, so the API server would refuse the whole of it
        raise DocumentError("slowRanks", ranks, "each rank once")
    return found
