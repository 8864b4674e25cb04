"""Restore the objects of a run from a checkpoint."""

import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from holdfast_train.commitlog.checkpoints import Found, found_in
from holdfast_train.commitlog.quarantine import BROKEN
from holdfast_train.data import rng
from holdfast_train.environment import Environment
from holdfast_train.errors import HoldfastTrainError, StateError
from holdfast_train.format.names import resolve
from holdfast_train.format.program import IMPORTED, Program, Severity, compare, refusal, with_objects
from holdfast_train.format.sharding import Box
from holdfast_train.format.stateful import Counts, Stateful, unwrapped
from holdfast_train.format.tree import APART, is_apart
from holdfast_train.memory import fits
from holdfast_train.ranks import Ranks
from holdfast_train.restore.lazy_tensors import fitted, lazies, outline, read_tensors, with_tensors
from holdfast_train.restore.memory_checkpoints import MemoryCheckpoints
from holdfast_train.restore.restored import Restored, restored
from holdfast_train.restore.shared_by_node import Layout, NodeSharing, SharedState
from holdfast_train.restore.source import CheckpointSource
from holdfast_train.restore.surviving_bytes import SurvivingBytes
from holdfast_train.restore.warm_start import named
from holdfast_train.say import say
from holdfast_train.storage.opening import open_retrying
from holdfast_train.storage.retrying import PATIENCE_SECONDS

SHOWN: Final = 600  # characters of an error: torch names each tensor, and a verdict has room for 2,000 characters
UNDO: Final = "undo the change of the program, or start on another prefix"
# Address and bytes of a manifest, number of its commit, and the objects to restore if not all.
_Offer: TypeAlias = tuple[str, bytes, int, tuple[str, ...]]


@runtime_checkable
class Positioned(Counts, Protocol):
    """An object that counts steps, knows its step and can continue at another one, such as ElasticSampler."""

    step: int

    def go_to(self, step: int) -> None:
        """Continue at `step`."""


def restore(
    environment: Environment,
    ranks: Ranks,
    choose: Callable[[MemoryCheckpoints], CheckpointSource],
    objects: Mapping[str, Stateful],
    per_rank: Mapping[str, Stateful],
) -> Restored | None:
    """This rank's part of a checkpoint, the same one on all ranks; None if none exists. All ranks call it together.

    `choose` is called on rank 0, with the copies that the memory of the nodes has. Each rank reads only what it needs;
    what the ranks of one node all need they read together, once. What the memory of the nodes still has is not read
    from the storage. If one rank finds the checkpoint broken, all ranks take the one before it. An error of one rank is
    raised on all ranks.
    """
    node = NodeSharing(ranks)
    chosen: list[CheckpointSource] = []

    with closing(SurvivingBytes.open(environment, ranks)) as held:

        def begin() -> _Offer | None:
            chosen.append(choose(held.copies))
            return _offer(chosen[0])

        offer = ranks.from_first(begin)
        while offer is not None:
            reading = _Reading(environment, offer, ranks.rank, objects, per_rank)
            shared = node.open(reading.layout)
            if held.has_files and not fits(reading.size(node.count)):
                say("there is no memory for the state beside its copies of the attempt before: the copies are freed")
                held.give_up()
            reading.run(shared, held)
            errors = ranks.gather(reading.error)
            verdict = ranks.from_first(lambda: _verdict(chosen[0], reading.found, errors))  # noqa: B023
            if isinstance(verdict, str):
                if held.summary:
                    say(f"read {held.summary}")
                return replace(reading.result(), note=verdict)
            reading.close()
            offer = verdict
    return None


def _offer(source: CheckpointSource) -> _Offer | None:
    """The newest checkpoint, in a form that rank 0 can send to the other ranks."""
    found = source.newest()
    return None if found is None else (found.uri, found.data, found.seq, found.only)


def _verdict(
    source: CheckpointSource, found: Found, errors: Sequence[HoldfastTrainError | None]
) -> _Offer | str | None:
    """The next checkpoint if a rank found `found` broken; a note for people if all ranks have read it.

    Raises the first error of another kind.
    """
    failed = [(rank, error) for rank, error in enumerate(errors) if error is not None]
    for _, error in failed:
        if not isinstance(error, BROKEN):
            raise error
    if not failed:
        return source.accept(found)
    rank, error = failed[0]
    assert isinstance(error, BROKEN)
    source.report_broken(found, error if rank == 0 else type(error)(f"rank {rank}: {error}"))
    return _offer(source)


class _Reading:
    """One rank reads a checkpoint. `error`: why it cannot; as it is raised on all ranks."""

    def __init__(
        self,
        environment: Environment,
        offer: _Offer,
        rank: int,
        objects: Mapping[str, Stateful],
        per_rank: Mapping[str, Stateful],
    ) -> None:
        self._environment = environment
        self._rank = rank
        self._objects = objects
        self._made: dict[tuple[str, Box], Any] = {}
        self._shared: SharedState | None = None
        self.error: HoldfastTrainError | None = None
        self.layout: Layout | None = None  # of what all ranks want whole
        try:
            self.found = found_in(*offer)
            self._names, self._wanted, self._mine = _outlines(self.found, rank, objects, per_rank)
            apart = is_apart(entry.name for entry in self.found.manifest.tensors)
            self.layout = Layout.of(lazy for lazy in lazies(self._wanted) if not apart(lazy.entry.name))
        except HoldfastTrainError as error:
            self.error = error

    def size(self, ranks: int) -> int:
        """Bytes that `ranks` ranks of a node read, each as much as this one."""
        if self.error is not None or self.layout is None:
            return 0
        together = {place.lazy.key for place in self.layout.places}
        alone = [lazy for lazy in lazies((self._wanted, self._mine)) if lazy.key not in together]
        return self.layout.size + ranks * sum(lazy.size for lazy in alone)

    def run(self, shared: SharedState | None, held: SurvivingBytes) -> None:
        """Read this rank's part into `shared`, and the rest into memory of its own; everything if it is None."""
        self._shared = shared
        if self.error is not None:
            return
        held.expect(self.found.manifest)
        alone = [lazy for lazy in lazies((self._wanted, self._mine)) if shared is None or lazy.key not in shared]
        try:
            storage = open_retrying(self._environment, resolve(self.found.uri)[0])
            with storage.within(PATIENCE_SECONDS):
                self._made = read_tensors(storage, self.found.manifest, alone, held=held)
                if shared is not None:
                    shared.fill(storage, self.found.manifest, held)
        except HoldfastTrainError as error:
            self.error = error

    def result(self) -> Restored:
        """What was read. All ranks have read their parts."""
        made = self._made if self._shared is None else {**self._made, **self._shared.take(self._kept())}
        wanted, mine = with_tensors((self._wanted, self._mine), made)
        ranks = [mine if number == self._rank else None for number in range(len(self.found.manifest.ranks))]
        found = restored(self.found, {"objects": wanted}, ranks)
        return replace(found, objects=self._names)

    def _kept(self) -> frozenset[tuple[str, Box]]:
        """The tensors that objects may keep. Modules copy what they load; of others nothing is known."""
        others = {name: state for name, state in self._wanted.items() if not _copies(self._objects[name])}
        return frozenset(lazy.key for lazy in lazies(others))

    def close(self) -> None:
        """Give up what was read."""
        if self._shared is not None:
            self._shared.close()


def _copies(thing: Stateful) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(unwrapped(thing), torch.nn.Module)


def _outlines(
    found: Found, rank: int, objects: Mapping[str, Stateful], per_rank: Mapping[str, Stateful]
) -> tuple[tuple[str, ...], dict[str, Any], dict[str, Any] | None]:
    """The names of all objects in `found`, what `rank` needs of `objects`, and of its own state.

    StateError if `found` has none of `objects`.
    """
    saved = outline(found.manifest.state, found.manifest)["objects"]
    if found.only:
        wanted = named(found, saved, objects)
        return tuple(saved), {name: fitted(saved[name], unwrapped(thing)) for name, thing in wanted.items()}, None
    mine = outline(found.manifest.ranks[rank], found.manifest) if rank < len(found.manifest.ranks) else None
    if mine is not None:
        saved = {**saved, **mine.get(APART, {})}
    wanted = {name: fitted(saved[name], unwrapped(thing)) for name, thing in _saved_ones(found, saved, objects).items()}
    if mine is not None:
        of_rank = mine["objects"]
        if removed := [name for name in of_rank if name not in per_rank]:
            names = ", ".join(map(repr, removed))
            say(f"the checkpoint contains {names} of rank {rank}, which per_rank does not contain: not restored")
        mine = {"rng": mine["rng"], "objects": {name: of_rank[name] for name in per_rank if name in of_rank}}
    return tuple(saved), wanted, mine


def _saved_ones(found: Found, saved: Mapping[str, object], objects: Mapping[str, Stateful]) -> Mapping[str, Stateful]:
    """The `objects` in the checkpoint. StateError if it has none of them: there is nothing to go on from.

    What `objects` has more is for the rule ObjectAdded; an imported checkpoint may be only weights.
    """
    here = {name: thing for name, thing in objects.items() if name in saved}
    if objects and not here:
        there, wanted = ", ".join(map(repr, saved)), ", ".join(map(repr, objects))
        imported = IMPORTED in found.manifest.program
        what, do = ("imported checkpoint", "import the source again with --name") if imported else ("checkpoint", UNDO)
        raise StateError(
            f"the {what} {found.uri} has only {there}, and none of {wanted}: give Run an object of that name, or {do}"
        )
    return here


def put_back(
    restored: Restored,
    ranks: Ranks,
    objects: Mapping[str, Stateful],
    per_rank: Mapping[str, Stateful],
    *,
    program: Program,
    rules: Mapping[str, Severity],
) -> bool:
    """Compare the program with the checkpoint, then load all objects. For the errors see the functions below.

    False after a warm start: it loads only the objects that it names, and the program begins at step 0.
    """
    if restored.only:
        restore_objects(restored, {name: objects[name] for name in restored.only}, first=ranks.first)
        if ranks.first:
            say(f"warm start at step 0, with {', '.join(restored.only)} of step {restored.step} ({restored.uri})")
        return False
    check_program(restored, program, rules, objects, first=ranks.first)
    restore_objects(restored, objects, first=ranks.first)
    restore_rank(restored, ranks.rank, per_rank)
    return True


def check_program(
    restored: Restored, now: Program, rules: Mapping[str, Severity], objects: Iterable[str], *, first: bool
) -> None:
    """On the `first` rank, report changes since the checkpoint. StateError, on all ranks, if a rule refuses one.

    `objects`: the names of the objects that all ranks share.
    """
    saved = with_objects(restored.program, restored.objects)
    findings = compare(saved, with_objects(now, objects), rules)
    if (message := refusal(findings)) is not None:
        raise StateError(message)
    for finding in findings:
        if first:
            say(f"{finding.rule}: {finding.sentence}")


def restore_objects(restored: Restored, objects: Mapping[str, Stateful], *, first: bool) -> None:
    """Load the objects that all ranks share; a sharded object gets this rank's shards.

    An object that the checkpoint lacks keeps its initial state, but one that counts steps continues at the step of the
    checkpoint. StateError if an object refuses its state, or is at another step than the checkpoint afterwards.
    """
    saved = restored.state["objects"]
    for name, thing in objects.items():
        if name in saved:
            _load(name, unwrapped(thing), saved.pop(name), restored)  # it is not kept longer than needed
            continue
        _begin(thing, restored)
        if first:
            how = f"continues at step {restored.step}" if isinstance(thing, Counts) else "keeps its initial state"
            say(f"the checkpoint has no object {name!r}: it {how}")


def restore_rank(restored: Restored, rank: int, per_rank: Mapping[str, Stateful]) -> None:
    """Load the objects of `rank` alone, then its random numbers, because loading may draw some. Errors as above."""
    mine = restored.ranks[rank] if rank < len(restored.ranks) else None
    for name, thing in per_rank.items():
        if mine is not None and name in mine["objects"]:
            _load(name, thing, mine["objects"][name], restored)
        else:
            _begin(thing, restored)
            if mine is not None:
                say(f"the checkpoint has no object {name!r} of rank {rank}: it keeps its initial state")
    if mine is None:
        say(f"the checkpoint has no rank {rank}: this rank starts with new random numbers")
    else:
        rng.restore(mine["rng"])


def _begin(thing: Stateful, restored: Restored) -> None:
    """Set an object that the checkpoint lacks to its step: `Run` counts on from that step, not from 0."""
    if isinstance(thing, Positioned):
        thing.go_to(restored.step)
    elif isinstance(thing, Counts):
        thing.trained(restored.step)


def _load(name: str, thing: Stateful, state: Any, restored: Restored) -> None:
    try:
        thing.load_state_dict(state)
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, RuntimeError) and type(error) is not RuntimeError:
            raise  # no memory or a lost GPU: own classes of errors, which are not about the state
        words = textwrap.shorten(f"{type(error).__name__}: {error}", SHOWN, placeholder=" and more").rstrip(".")
        do = (
            f"leave {name!r} out of checkpoint.resume.only, or make it as that program made it"
            if restored.only
            else f"{UNDO}; if the program changes its form in its training, make it so before `with Run(...)`"
        )
        raise StateError(f"{name!r} cannot load its state from {restored.uri}: {words}. So {do}") from error
    if isinstance(thing, Positioned) and thing.step != restored.step:
        raise StateError(
            f"{name!r} in {restored.uri} is at step {thing.step}, but the checkpoint is of step {restored.step}: one "
            f"step would be other data; import with --step {thing.step} to another prefix, and start from that prefix"
        )
