"""Giving the objects of a run what a checkpoint holds of them."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from holdfast_train.commitlog.checkpoints import Found, found_in
from holdfast_train.commitlog.quarantine import BROKEN
from holdfast_train.data import rng
from holdfast_train.environment import Environment
from holdfast_train.errors import HoldfastTrainError, StateError
from holdfast_train.format.names import resolve
from holdfast_train.format.program import IMPORTED, Program, Severity, compare, refusal
from holdfast_train.format.stateful import Counts, Stateful, unwrapped
from holdfast_train.ranks import Ranks
from holdfast_train.restore.lazy_tensors import fitted, materialise, outline
from holdfast_train.restore.restored import Restored, restored
from holdfast_train.restore.source import Source
from holdfast_train.say import say
from holdfast_train.storage.opening import START_PATIENCE, open_patient

__all__ = ["check_program", "restore", "restore_objects", "restore_rank"]

SHOWN: Final = 600  # characters of an error: torch names each tensor, and a verdict holds 2,000
AS_IT_WAS: Final = "put the program back as it was, or start on another prefix"
_Offer: TypeAlias = tuple[str, bytes, int]  # of a checkpoint: address and bytes of its manifest, number of its commit


@runtime_checkable
class Positioned(Counts, Protocol):
    """What counts steps, says how many, and can be put to another, such as ElasticSampler."""

    step: int

    def go_to(self, step: int) -> None:
        """Go on at `step`."""


def restore(
    environment: Environment,
    ranks: Ranks,
    choose: Callable[[], Source],
    objects: Mapping[str, Stateful],
    per_rank: Mapping[str, Stateful],
) -> Restored | None:
    """What this rank needs of one checkpoint, the same on all ranks; None if there is none. All ranks call it together.

    `choose` is called on rank 0. Each rank reads what it needs and nothing else; if one of them finds that broken, all
    take the checkpoint before it. An error of one rank is raised on all.
    """
    chosen: list[Source] = []

    def begin() -> _Offer | None:
        chosen.append(choose())
        return _offer(chosen[0])

    offer = ranks.from_first(begin)
    while offer is not None:
        result: Restored | None = None
        error: HoldfastTrainError | None = None
        try:
            found = found_in(*offer)
            result = _read(environment, found, rank=ranks.rank, objects=objects, per_rank=per_rank)
        except HoldfastTrainError as failure:
            error = failure
        errors = ranks.gather(error)
        verdict = ranks.from_first(lambda: _verdict(chosen[0], found, errors))  # noqa: B023
        if isinstance(verdict, str):
            assert result is not None
            return replace(result, note=verdict)
        offer = verdict
    return None


def _offer(source: Source) -> _Offer | None:
    """What the other ranks are told of the newest checkpoint."""
    found = source.newest()
    return None if found is None else (found.uri, found.data, found.seq)


def _verdict(source: Source, found: Found, errors: Sequence[HoldfastTrainError | None]) -> _Offer | str | None:
    """What to read next if `found` is broken; a note for people if all ranks have read it. Raises what else one met."""
    met = [(rank, error) for rank, error in enumerate(errors) if error is not None]
    for _, error in met:
        if not isinstance(error, BROKEN):
            raise error
    if not met:
        return source.accept(found)
    rank, error = met[0]
    assert isinstance(error, BROKEN)
    source.pass_over(found, error if rank == 0 else type(error)(f"rank {rank}: {error}"))
    return _offer(source)


def _read(
    environment: Environment,
    found: Found,
    *,
    rank: int,
    objects: Mapping[str, Stateful],
    per_rank: Mapping[str, Stateful],
) -> Restored:
    """What `rank` needs of `found`. StateError names what it lacks; StorageErrors."""
    saved = outline(found.manifest.state, found.manifest)["objects"]
    wanted = {name: fitted(saved[name], unwrapped(thing)) for name, thing in _held(found, saved, objects).items()}
    mine = outline(found.manifest.ranks[rank], found.manifest) if rank < len(found.manifest.ranks) else None
    if mine is not None:
        mine = {**mine, "objects": {name: mine["objects"][name] for name in per_rank if name in mine["objects"]}}
    storage = open_patient(environment, resolve(found.uri)[0])
    with storage.within(START_PATIENCE):
        wanted, mine = materialise(storage, found.manifest, (wanted, mine))
    ranks = [mine if number == rank else None for number in range(len(found.manifest.ranks))]
    return restored(found, {"objects": wanted}, ranks)


def _held(found: Found, saved: Mapping[str, object], objects: Mapping[str, Stateful]) -> Mapping[str, Stateful]:
    """Those of `objects` that the checkpoint holds: all, but of an imported one, which may be of weights alone."""
    lacking = [name for name in objects if name not in saved]
    if lacking and IMPORTED not in found.manifest.program:
        there = ", ".join(map(repr, saved))
        raise StateError(f"the checkpoint {found.uri} holds no {lacking[0]!r}, only {there}: {AS_IT_WAS}")
    if lacking and len(lacking) == len(objects):
        there = ", ".join(map(repr, saved))
        raise StateError(
            f"the imported checkpoint {found.uri} holds only {there}, and none of {', '.join(objects)}: give Run an "
            f"object of such a name, or import the source again with --name"
        )
    return {name: thing for name, thing in objects.items() if name in saved}


def check_program(restored: Restored, now: Program, rules: Mapping[str, Severity], *, first: bool) -> None:
    """Say what has changed since the checkpoint, on the `first` rank. StateError, on all, if a rule refuses it."""
    findings = compare(restored.program, now, rules)
    if (message := refusal(findings)) is not None:
        raise StateError(message)
    for finding in findings:
        if first:
            say(f"{finding.rule}: {finding.sentence}")


def restore_objects(restored: Restored, objects: Mapping[str, Stateful], *, first: bool) -> None:
    """What all ranks have alike; a sharded one gets its shards.

    What an imported checkpoint lacks starts anew, but what counts steps goes on at that of the checkpoint. StateError
    if one does not take what the checkpoint holds of it, or is at another step than the checkpoint then.
    """
    saved = restored.state["objects"]
    for name, thing in objects.items():
        if name in saved:
            _load(name, unwrapped(thing), saved[name], restored)
            continue
        _begin(thing, restored)
        if first:
            how = f"goes on at step {restored.step}" if isinstance(thing, Counts) else "starts anew"
            say(f"the checkpoint was imported, and holds no {name!r}: that {how}")


def restore_rank(restored: Restored, rank: int, per_rank: Mapping[str, Stateful]) -> None:
    """What `rank` has alone, and its random numbers: last, for loading may draw some. Errors: see `restore_objects`."""
    mine = restored.ranks[rank] if rank < len(restored.ranks) else None
    for name, thing in per_rank.items():
        if mine is not None and name in mine["objects"]:
            _load(name, thing, mine["objects"][name], restored)
        else:
            _begin(thing, restored)
    if mine is None:
        say(f"the checkpoint has no rank {rank}: its random numbers start anew")
    else:
        rng.restore(mine["rng"])


def _begin(thing: Stateful, restored: Restored) -> None:
    """What the checkpoint lacks: the steps that `Run` counts from there on are not the first ones."""
    if isinstance(thing, Positioned):
        thing.go_to(restored.step)
    elif isinstance(thing, Counts):
        thing.trained(restored.step)


def _load(name: str, thing: Stateful, state: Any, restored: Restored) -> None:
    try:
        thing.load_state_dict(state)
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, RuntimeError) and type(error) is not RuntimeError:
            raise  # no memory, a lost GPU: kinds of their own, which say nothing of the state
        words = textwrap.shorten(f"{type(error).__name__}: {error}", SHOWN, placeholder=" and more").rstrip(".")
        raise StateError(f"{name!r} does not take what {restored.uri} holds: {words}. So {AS_IT_WAS}") from error
    if isinstance(thing, Positioned) and thing.step != restored.step:
        raise StateError(
            f"{name!r} in {restored.uri} is at step {thing.step}, and the checkpoint is of step {restored.step}: steps "
            f"would not mean the same data; import it with --step {thing.step} to another prefix, and start from that"
        )
