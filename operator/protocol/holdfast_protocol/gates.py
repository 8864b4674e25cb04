"""Feature gates: features that never ran on what they are for are off, until an administrator turns them on.

The operator reads them (`--feature-gates`, chart value `featureGates`) and tells its pods those that are on, as `gates`
of their settings. docs/reference/proved.md has a table that is generated from GATES.
"""

from __future__ import annotations

from typing import NamedTuple


class Gate(NamedTuple):
    """One gate, off by default. `guards`: what it is for; `off`: what happens while it is off."""

    name: str
    guards: str
    off: str
    stage: str = "Alpha"
    since: str = "0.1.0"


FROZEN_CHECKSUMS_ON_CUDA = Gate(
    "FrozenChecksumsOnCuda",
    "Frozen parameters on a GPU, whose checksums the GPU computes, are uploaded once.",
    "They are saved in full each time, and the log says so once.",
)
SLOW_RANKS_ON_GPUS = Gate(
    "SlowRanksOnGpus",
    "`failure.slowRanks` compares ranks whose model is on a GPU, by events of its stream.",
    "Only ranks on a CPU are compared, and the log says so once.",
)
NCCL_RAS = Gate(
    "NcclRas",
    "The evidence of a hang contains what NCCL's RAS says of its communicators.",
    "NCCL is not asked.",
)
PEER_COPIES = Gate(
    "PeerCopies",
    "`checkpoint.peers` keeps a copy of each rank's state on another node.",
    "The training runs without these copies, and the condition `FeatureOff` of the job says so.",
)
RESTART_IN_PLACE = Gate(
    "RestartInPlace",
    "`restart_in_place` keeps a program in its process when the training starts again on its nodes.",
    "It says so once and calls the function once; a restart starts a new process.",
)
GATES = (FROZEN_CHECKSUMS_ON_CUDA, SLOW_RANKS_ON_GPUS, NCCL_RAS, PEER_COPIES, RESTART_IN_PLACE)


def read(text: str) -> frozenset[str]:
    """The names that `Name=true,Other=false` turns on. ValueError says what is wrong and what is allowed."""
    known = [gate.name for gate in GATES]
    chosen: dict[str, bool] = {}
    for pair in filter(None, text.split(",")):
        name, _, value = pair.partition("=")
        if name not in known:
            raise ValueError(f"{name}: unknown gate; allowed are {', '.join(known)}")
        if value not in ("true", "false"):
            raise ValueError(f"{pair}: must be {name}=true or {name}=false")
        if name in chosen:
            raise ValueError(f"{name}: is there twice; name it once")
        chosen[name] = value == "true"
    return frozenset(name for name, is_on in chosen.items() if is_on)
