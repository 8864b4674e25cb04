"""Giving the objects of a run what a checkpoint holds of them."""

from collections.abc import Mapping

from holdfast_train import rng
from holdfast_train.checkpoints import Restored
from holdfast_train.errors import StateError
from holdfast_train.program import Program, Severity, compare, refusal
from holdfast_train.say import say
from holdfast_train.sharding import fitted
from holdfast_train.state import Stateful, unwrapped

__all__ = ["check_program", "restore_objects", "restore_rank"]


def check_program(restored: Restored, now: Program, rules: Mapping[str, Severity], *, first: bool) -> None:
    """Say what has changed since the checkpoint, on the `first` rank. StateError, on all, if a rule refuses it."""
    findings = compare(restored.program, now, rules)
    if (message := refusal(findings)) is not None:
        raise StateError(message)
    for finding in findings:
        if first:
            say(f"{finding.rule}: {finding.sentence}")


def restore_objects(restored: Restored, objects: Mapping[str, Stateful]) -> None:
    """What all ranks have alike; a sharded one gets its shards. StateError names what the checkpoint lacks."""
    saved = restored.state["objects"]
    for name, thing in objects.items():
        if name not in saved:
            raise StateError(f"the checkpoint {restored.uri} holds no {name!r}, only {', '.join(map(repr, saved))}")
        inner = unwrapped(thing)
        inner.load_state_dict(fitted(saved[name], inner))


def restore_rank(restored: Restored, rank: int, per_rank: Mapping[str, Stateful]) -> None:
    """What `rank` has alone, and its random numbers: last, for loading may draw some."""
    if rank >= len(restored.ranks):
        say(f"the checkpoint has no rank {rank}: its random numbers start anew")
        return
    mine = restored.ranks[rank]
    for name, thing in per_rank.items():
        if name in mine["objects"]:
            thing.load_state_dict(mine["objects"][name])
    rng.restore(mine["rng"])
