"""The settings of a job for its pod: one document in the variable HOLDFAST_SETTINGS.

The operator writes it (`holdfast.core.pod_settings`). `Run`, the launcher and the init container read it. Times are in
seconds, sizes in bytes. The text below a field is its description in docs/reference/environment.md.

VERSION changes if an older reader would misunderstand a document, and a reader refuses a version that it does not know.
A new field with a default needs no new version: see docs/reference/protocol.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from . import document as kind
from . import variables
from .document import REQUIRED, DocumentError, decode, read_json
from .gates import Gate

VERSION = 1
ADDRESSES = ("Auto", "Never")  # what `resume` may be besides an address
Addressing = Literal["Auto", "Path", "Virtual"]
VIRTUAL = "Virtual"  # one of these


@dataclass(frozen=True)
class Every:
    """When to save: every `steps` steps, or every `seconds` seconds; without both, the pod finds the interval.

    `max_lost_work`: it bounds the interval in every mode. `mean_time_between_interruptions`: of a node of the tier.
    """

    steps: int | None = kind.whole(least=1)
    seconds: float | None = kind.seconds(above=0)
    max_lost_work: float | None = kind.seconds(above=0)
    mean_time_between_interruptions: float | None = kind.seconds(above=0)


@dataclass(frozen=True)
class Keep:
    """Which checkpoints are kept: the newest `last`, one for each `every`, and the best `best` by `metric`.

    `logs`: what the pod writes is kept too.
    """

    last: int = kind.whole(3, least=1)
    every: float | None = kind.seconds(above=0)
    best: int = kind.whole(0)
    metric: str | None = kind.text()
    mode: Literal["Min", "Max"] = kind.choice("Min", "Max")
    logs: bool = kind.flag()


@dataclass(frozen=True)
class Spike:
    """When losses explode: `steps` in a row exceed the median of the last `window` by `deviations` deviations."""

    deviations: int = kind.whole(10, least=1)
    steps: int = kind.whole(10, least=1)
    window: int = kind.whole(200, least=1)


@dataclass(frozen=True)
class Stall:
    """How a hang is found: after `timeout` without a step; without it, the launcher learns how long a step takes."""

    timeout: float | None = kind.seconds(above=0)


@dataclass(frozen=True)
class Data:
    """One entry of `trainer.data`: objects below `source` are wanted in `to`, which is `mount` or below it.

    `keys`: the folder with the keys of their store. `ca`, `proxy` and `addressing`: as for checkpoints.
    """

    source: str = kind.text(REQUIRED, name="from")
    to: str = kind.text(REQUIRED)
    mount: str = kind.text(REQUIRED)
    endpoint: str | None = kind.text()
    region: str | None = kind.text()
    keys: str | None = kind.text()
    ca: str | None = kind.text()
    proxy: str | None = kind.text()
    addressing: Addressing = kind.choice("Auto", "Path", "Virtual")


@dataclass(frozen=True)
class Settings:
    """All of them. None: not set."""

    version: int = kind.version(VERSION)
    """Of this document; a pod refuses one that it does not know."""
    grace: float = kind.seconds(30.0)
    """`checkpoint.gracePeriod`."""
    operator_url: str | None = kind.text()
    """Where the pod reports progress and gets orders."""
    token_file: str | None = kind.text()
    """File with the pod's token, bound to the pod and to the audience `holdfast`."""
    ca_file: str | None = kind.text()
    """File with the CA of the operator's endpoint."""
    checkpoint_uri: str | None = kind.text()
    """`s3://bucket/prefix`, or the mounted volume as `file://`."""
    checkpoint_region: str | None = kind.text()
    """Of the S3 server."""
    checkpoint_endpoint: str | None = kind.text()
    """Of the S3 server."""
    checkpoint_ca: str | None = kind.text()
    """File with the certificates of `ca`, which changes with it; the S3 server is trusted only by them."""
    checkpoint_proxy: str | None = kind.text()
    """The HTTP proxy through which the S3 server is reached."""
    checkpoint_addressing: Addressing = kind.choice("Auto", "Path", "Virtual")
    """Where requests to the S3 server name the bucket."""
    keys_folder: str | None = kind.text()
    """Folder with the keys of `credentialsSecret` as files, which change with it; they replace the variables."""
    folder: str | None = kind.text()
    """`checkpoint.folder`."""
    folder_pattern: str | None = kind.text()
    """`checkpoint.pattern`."""
    folder_exclude: tuple[str, ...] = kind.texts(most=64, characters=256)
    """`checkpoint.exclude`."""
    folder_put_back: Literal["All", "Newest"] = kind.choice("All", "Newest")
    """`checkpoint.putBack`."""
    folder_quiet: float = kind.seconds(2.0, above=0)
    """How long no file in `checkpoint.folder` may change before a save is committed; `holdfast rehearse` sets it."""
    every: Every = kind.part(Every, Every())
    """When to save: `steps` or `seconds` of `checkpoint.every` (neither: `auto`); `checkpoint.maxLostWork`."""
    upload_rate: int | None = kind.whole(least=1)
    """`checkpoint.uploadRate` a second, for the whole pod."""
    peers: bool = kind.flag()
    """`checkpoint.peers`: another node keeps a copy of the state too."""
    keep: Keep = kind.part(Keep, Keep())
    """`checkpoint.keep`."""
    resume: str = kind.text("Auto")
    """`checkpoint.resume`: `Auto`, `Never`, or an address."""
    resume_only: tuple[str, ...] = kind.texts(most=64, characters=256)
    """`checkpoint.resume.only`: the objects to restore from the address; empty: all."""
    non_finite: Literal["Ignore", "Rollback", "Stop"] = kind.choice("Ignore", "Rollback", "Stop")
    """`failure.nonFinite`: what is done if losses are not finite."""
    spike: Spike | None = kind.part(Spike)
    """`failure.spike`."""
    slow_window: float | None = kind.seconds(above=0)
    """`failure.slowRanks.window`; not set if ranks are not compared."""
    stall: Stall | None = kind.part(Stall)
    """`failure.stallTimeout` as `timeout`; `{}`: Auto; not set: the launcher does not look for a hang."""
    data: tuple[Data, ...] = kind.parts(Data, most=64)
    """`trainer.data`, with how each store is reached."""
    code: str | None = kind.text()
    """The hash of `trainer.code`: the init container puts it into `HOLDFAST_CODE_DIR`."""
    dependencies: str | None = kind.text()
    """The hash of `trainer.code.dependencies`: the init container puts them into `HOLDFAST_DEPENDENCIES_DIR`."""
    patterns: tuple[str, ...] = kind.texts(most=64)
    """`progress.patterns`."""
    imports: tuple[str, ...] = kind.texts(most=256, characters=256)
    """Libraries that the launcher [imports before it is ready](../how-to/several-nodes.md#a-process-that-waits)."""
    mlflow: bool = kind.flag()
    """`trainer.tracking.mlflow`: the launcher sets `MLFLOW_RUN_ID`."""
    wandb: bool = kind.flag()
    """`trainer.tracking.wandb`: the launcher reads the address of the run in the output of the program."""
    warm_start: bool = kind.flag(True)
    """`trainer.warmStart`: [a process waits](../how-to/several-nodes.md#a-process-that-waits), with several nodes."""
    gates: tuple[str, ...] = kind.texts(most=64, characters=64)
    """The [feature gates](proved.md#feature-gates) that are on."""

    def is_on(self, gate: Gate) -> bool:
        """True if the gate is on."""
        return gate.name in self.gates


def read(environment: Mapping[str, str]) -> Settings:
    """The settings in a pod's environment; outside a pod the defaults. DocumentError names the field that is wrong."""
    return _read(environment.get(variables.SETTINGS, ""))


@lru_cache(maxsize=8)
def _read(content: str) -> Settings:
    found = decode(Settings, read_json(content or "{}", variables.SETTINGS), variables.SETTINGS)
    if found.resume_only and found.resume in ADDRESSES:
        allowed = f"only with an address in resume, which is {found.resume!r}"
        raise DocumentError(f"{variables.SETTINGS}.resumeOnly", list(found.resume_only), allowed)
    if found.keep.best and found.keep.metric is None:
        raise DocumentError(f"{variables.SETTINGS}.keep.metric", None, "the name of a metric, since keep.best is set")
    return found
