"""What an attempt runs: the fields of the spec that its pods are made from, each with a digest, and one hash of all.

An attempt keeps the digests in status, and a pod has the hash. So every later pass sees which fields the spec has
changed since, also if no operator saw the edit.
"""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from holdfast.api.attempt import Attempt, FieldDigest
from holdfast.api.canonical import canonical
from holdfast.api.failure import Failure
from holdfast.api.job import Checkpoint, Goal, Progress, TrainingJobSpec
from holdfast.api.model import Model
from holdfast.api.profile import ProfileTier
from holdfast.api.trainer import Trainer

MadeFrom = tuple[FieldDigest, ...]

LENGTH: Final = 16  # hexadecimal digits of a digest
TRAINER, STORAGE, FOLDER, GOAL = "trainer", "checkpoint.storage", "checkpoint.folder", "goal.steps"
# An attempt with another value of one of these does not do the work of its job: it has to leave. One with a lower goal
# would end early, and what is complete stays complete.
WORK: Final = frozenset((TRAINER, STORAGE, GOAL))
# A program that has taken the storage fence takes it again if these are the same. The process that saves a folder takes
# the fence for a program that cannot.
_FENCED_BY: Final = frozenset((TRAINER, STORAGE, FOLDER))


def made_from(spec: TrainingJobSpec) -> MadeFrom:
    """The fields that pods are made from, in a fixed order. A field at its default is left out.

    All other fields are the operator's: a change of one counts at once.
    """
    return _made_from(spec.trainer, spec.checkpoint, spec.goal, spec.progress, spec.failure)


def hash_of(fields: Iterable[FieldDigest]) -> str:
    """One hash of these fields."""
    return _digest([(one.field, one.digest) for one in fields])


def fence_hash(fields: Iterable[FieldDigest]) -> str:
    """One hash of the fields that decide whether a program takes the storage fence."""
    return hash_of(one for one in fields if one.field in _FENCED_BY)


def pods_hash(fields: Iterable[FieldDigest], grid: Iterable[ProfileTier]) -> str:
    """One hash of all that the next pods may be made from: these fields, and the tiers in their order."""
    return _digest([hash_of(fields), *(canonical(for_pods(tier)) for tier in grid)])


def for_pods(tier: ProfileTier) -> ProfileTier:
    """The tier without the fields that make no difference to a pod."""
    same = {"price_per_node_hour": None, "pace": None, "observation": None, "acquire_timeout": None}
    return tier.model_copy(update=same)


def tier_changes(runs: ProfileTier, says: ProfileTier) -> tuple[str, ...]:
    """The names of the fields with which a pod on the tier `runs` is made otherwise than on `says`, sorted."""
    if runs == says:
        return ()
    was, now = dict(_named(for_pods(runs))), dict(_named(for_pods(says)))
    return tuple(sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name)))


def changed_fields(attempt: Attempt, spec: TrainingJobSpec) -> tuple[str, ...]:
    """The names of the fields with which the attempt runs otherwise than `spec` says, sorted.

    An attempt of which it is not known runs another trainer.
    """
    runs, says = ({one.field: one.digest for one in fields} for fields in (attempt.made_from, made_from(spec)))
    return tuple(sorted(name for name in runs.keys() | says.keys() if runs.get(name) != says.get(name)))


def other_work(attempt: Attempt, spec: TrainingJobSpec) -> tuple[str, ...]:
    """The names of the fields of spec because of which the attempt is not the job's any more; empty if it is."""
    return tuple([name for name in changed_fields(attempt, spec) if name in WORK])


def leaves_for(attempt: Attempt, spec: TrainingJobSpec) -> tuple[str, ...]:
    """Those of these fields for which an attempt that works has to leave.

    Another goal alone waits for the next attempt if the program has not taken the fence: then nothing of it is saved.
    """
    fields = other_work(attempt, spec)
    return fields if attempt.fenced or fields != (GOAL,) else ()


def has_other_goal(attempt: Attempt | None, spec: TrainingJobSpec) -> bool:
    """True if it is known that the attempt runs with another goal than `spec` says: then its own goal counts."""
    return attempt is not None and bool(attempt.made_from) and GOAL in changed_fields(attempt, spec)


@lru_cache(maxsize=4096)
def _made_from(trainer: Trainer, checkpoint: Checkpoint, goal: Goal, progress: Progress, failure: Failure) -> MadeFrom:
    slow = failure.slow_ranks
    fields = {
        TRAINER: canonical(trainer),
        **dict(_fields("checkpoint", checkpoint)),
        **dict(_fields("goal", goal)),
        **dict(_fields("progress", progress)),
        **dict(_fields("failure", failure, only=("nonFinite", "spike", "stallTimeout"))),
        # Pods compare ranks over a window, or not at all. What is done about a slow one is the operator's.
        **dict([("failure.slowRanks", "Ignore")] if slow.action == "Ignore" else _fields("failure.slowRanks", slow)),
    }
    fields.pop("failure.slowRanks.action", None)
    return tuple([FieldDigest(field=name, digest=_digest(value)) for name, value in fields.items()])


def _fields(path: str, model: Model, only: Iterable[str] = ()) -> Iterator[tuple[str, Any]]:
    """The fields of a model that are not at their defaults, by path, in their canonical form."""
    for name, value in _named(model):
        if not only or name in only:
            yield f"{path}.{name}", value


def _named(model: Model) -> Iterator[tuple[str, Any]]:
    """The fields of a model that are not at their defaults, by the names that people write, in their canonical form."""
    fields = type(model).model_fields
    for name, value in canonical(model).items():
        yield fields[name].alias or name, value


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:LENGTH]
