"""`TrainingState`: what a checkpoint contains, and what of it one rank has to save."""

import contextlib
import gc
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast_train.data import rng
from holdfast_train.format.program import Program
from holdfast_train.format.rank_agreement import ALL_ALIKE, Apart, Facts, apart_trees, facts_of, is_own, renamed
from holdfast_train.format.repeated_walk import RepeatedWalk
from holdfast_train.format.sharding import storage_of
from holdfast_train.format.stateful import Stateful, unwrapped
from holdfast_train.format.tree import APART, Leaf, Tree, Walk, apart_name


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Inside, Python does not search for unreachable objects.

    A save makes several objects for each tensor, and all of them stay. For a state of 100,000 tensors the searches that
    they would cause take longer than the rest of the call, for which training waits.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class TrainingState:
    """What a checkpoint contains: `objects`, the same on all ranks, `per_rank` objects, and the `program`'s facts."""

    objects: Mapping[str, Stateful]
    per_rank: Mapping[str, Stateful]
    program: Program = field(default_factory=Program)
    repeated_walk: RepeatedWalk = field(default_factory=RepeatedWalk, repr=False, compare=False)

    def walk(self, rank: int, apart: Apart = ALL_ALIKE) -> tuple[Walk, int, Tree, Tree]:
        """The leaves, how many of them are equal on all ranks, the tree of `objects`, and the tree of `rank` alone.

        The leaves that are equal on all ranks, and shards, come first. Each rank has what is `apart` in its own tree,
        under names of its own; rank 0 has it in the tree of `objects`, from which ranks resume that were not there at
        the save.
        """
        walk, of_objects = self.repeated_walk.walk(self._states())
        tree: Tree = {"$dict": [["objects", of_objects]]}
        alike: list[Leaf] = []
        differing: list[Leaf] = []
        is_differing = is_own(tree, apart)
        for leaf in walk.leaves:
            (differing if is_differing(leaf) else alike).append(leaf)
        by = {leaf.name: apart_name(rank, leaf.name) for leaf in differing} if rank > 0 else {}
        differing = [leaf._replace(name=by.get(leaf.name, leaf.name)) for leaf in differing]
        begin = len(walk.leaves)
        # One by one, as the objects that all ranks share: a resume may want some of them alone.
        own_objects: list[Tree] = [
            [name, renamed(walk.tree(thing.state_dict(), f"@{rank}/objects/{name}"), by)]
            for name, thing in self.per_rank.items()
        ]
        own: list[Tree] = [["rng", walk.tree(rng.capture(), f"@{rank}/rng")], ["objects", {"$dict": own_objects}]]
        if rank > 0 and apart.objects:
            own.append([APART, apart_trees(tree, apart, by)])
        walk.leaves = [*alike, *differing, *walk.leaves[begin:]]
        return walk, len(alike), tree, {"$dict": own}

    def facts(self, rank: int, trained: frozenset[int]) -> tuple[Tree, Facts]:
        """The tree of `objects`, and what `rank` has of it. `trained`: memory that has to be the same on all ranks."""
        walk = Walk()
        tree: Tree = {"$dict": [["objects", walk.tree(self._states(), "")]]}
        trained |= frozenset(storage_of(p) for thing in self.objects.values() for p in _parameters(unwrapped(thing)))
        whole = [leaf for leaf in walk.leaves if leaf.box is None]
        return tree, facts_of(tree, [x for x in whole if x.kind != "torch" or storage_of(x.value) not in trained])

    def _states(self) -> dict[str, Any]:
        return {name: unwrapped(thing).state_dict() for name, thing in self.objects.items()}


def _parameters(thing: Any) -> Iterable[Any]:
    torch: Any = sys.modules.get("torch")
    return thing.parameters() if torch is not None and isinstance(thing, torch.nn.Module) else ()
