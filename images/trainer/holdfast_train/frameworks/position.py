"""The position in a data loader that a library has made: the epoch, and how many of its batches were trained."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast_train.data import rng
from holdfast_train.data.own_generators import generators_in
from holdfast_train.data.rng import Generators
from holdfast_train.errors import StateError
from holdfast_train.format.stateful import Stateful
from holdfast_train.frameworks.batch_order import BatchOrder, seed_batches
from holdfast_train.frameworks.kept_workers import renew_workers

INSIDE: Final = ("batch_sampler", "sampler", "base_sampler", "inner")  # where samplers keep the sampler below them


class Position:
    """The position in `loader`, a DataLoader of torch. It belongs into `per_rank` of a Run.

    An epoch is read once more from its first batch after a resume, without loading the samples of the batches that were
    trained. For this the state has all that decides the order of an epoch as it was before the order was drawn: the
    generators of the process, those that loader and samplers keep, and samplers with a state of their own. What the
    loader draws before that depends on whether its workers are new. `check` proves that the order is the one before.

    `loader` is changed: its batches are recorded (`BatchOrder`) and its random numbers depend on the batch
    (`SeededBatches`). `seed` and `rank` decide these numbers.
    """

    is_position_in_data: Final = True

    def __init__(self, loader: Any, *, seed: int, rank: int) -> None:
        _refuse_unordered(loader)
        self.epoch = self.batches = 0
        self._loader = loader
        self._order = seed_batches(loader, f"{seed}/{rank}")
        self._start: dict[str, Any] = {}
        self._is_drawn = False  # the order of this epoch
        self._expected: int | None = None

    def begin(self, epoch: int) -> None:
        """Epoch `epoch` begins: the loader is asked for its batches next."""
        self.epoch, self.batches = epoch, 0
        self._order.epoch, self._order.first = epoch, 0
        self._order.before_order = self._note_drawn
        self._expected = None
        self._is_drawn = False
        self._start = self._capture()
        renew_workers(self._loader)

    def begin_again(self, *, skip: bool = False) -> None:
        """The epoch of the checkpoint begins once more: the loader is asked for its batches next.

        `skip`: the loader gives only the batches that were not trained. Otherwise the library passes over the others.
        """
        self._order.epoch, self._order.first = self.epoch, self.batches if skip else 0
        self._order.before_order = self._restore if self._is_drawn else self._note_drawn
        self._restore()

    def check(self) -> None:
        """StateError if the batches that were passed over after a resume are not those that were trained."""
        if self._expected is None:
            return
        found = self._order.digests[self.batches - 1] if len(self._order.digests) >= self.batches else None
        if found != self._expected:
            names = " in ".join(type(part).__name__ for part in _samplers(self._loader))
            raise StateError(
                f"the samples of epoch {self.epoch} come in another order than before the checkpoint, so some would be "
                f"trained twice: data set and sampler ({names}) must give the same order from the same random state. "
                f"Draw the order from a torch.Generator in the attribute `generator` of the sampler, or give the "
                f"sampler state_dict and load_state_dict"
            )
        self._expected = None

    def state_dict(self) -> dict[str, Any]:
        """The position, and all that decides the order of the epoch."""
        seen = self._order.digests[self.batches - 1] if self.batches else 0
        return {
            "epoch": self.epoch,
            "batches": self.batches,
            "seen": f"{seen:016x}",
            "start": self._start,
            "drawn": self._is_drawn,
        }

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Take over the position. `begin_again` goes there."""
        self.epoch, self.batches, self._start = state["epoch"], state["batches"], dict(state["start"])
        self._expected = int(state["seen"], 16) if self.batches else None
        self._is_drawn = state["drawn"]

    def _note_drawn(self) -> None:
        self._is_drawn = True
        self._start = self._capture()

    def _capture(self) -> dict[str, Any]:
        return {"rng": rng.capture_host(), "parts": {name: part.state_dict() for name, part in self._parts()}}

    def _restore(self) -> None:
        rng.restore_host(self._start["rng"])
        saved = self._start["parts"]
        for name, part in self._parts():
            if name in saved:
                part.load_state_dict(saved[name])

    def _parts(self) -> Iterator[tuple[str, Stateful]]:
        """What decides the order of an epoch and has a state: generators of the loader, those that samplers carry, and
        samplers with state_dict."""
        for name, value in list(vars(self._loader).items()):
            if rng.is_generator_type(type(value)):
                yield f"0.{name}", Generators(**{name: value})
        samplers = {f"{level}": part for level, part in enumerate(_samplers(self._loader), 1)}
        for place, generator in generators_in(**samplers).items():
            yield place, Generators(**{place.rpartition(".")[2]: generator})
        for level, part in samplers.items():
            if not isinstance(part, BatchOrder) and isinstance(part, Stateful):
                yield level, part


class Shape:
    """Numbers that must not change between a checkpoint and a resume, because positions depend on them.

    StateError if one has changed. `words` says for people which numbers they are.
    """

    def __init__(self, **numbers: int) -> None:
        self._numbers = numbers

    def state_dict(self) -> dict[str, int]:
        """The numbers by name."""
        return dict(self._numbers)

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Compare. Nothing is taken over."""
        changed = [
            f"{name.replace('_', ' ')} was {state[name]} and is {number}"
            for name, number in self._numbers.items()
            if name in state and state[name] != number
        ]
        if changed:
            raise StateError(
                f"since the checkpoint, {'; '.join(changed)}: samples would be trained twice, or never. Undo the "
                f"change, or start on another prefix"
            )


def _samplers(loader: Any) -> list[Any]:
    """The batch sampler of `loader`, and the samplers below it, from the outermost."""
    found: list[Any] = []
    todo = [loader.batch_sampler]
    while todo:
        part = todo.pop(0)
        if part is None or any(part is one for one in found):
            continue
        found.append(part)
        todo += [value for name, value in getattr(part, "__dict__", {}).items() if name in INSIDE]
    return found


def _refuse_unordered(loader: Any) -> None:
    torch_data: Any = sys.modules["torch.utils.data"]
    if isinstance(loader.dataset, torch_data.IterableDataset):
        raise StateError(
            "the data set is an IterableDataset: it has no position to which a resume could go. Use a data set with "
            "__getitem__ and __len__"
        )
    if not isinstance(loader, torch_data.DataLoader) or loader.batch_sampler is None:
        raise StateError(
            f"the data loader is a {type(loader).__name__} without a batch sampler: its position is not known. Use a "
            f"torch DataLoader with batch_size or batch_sampler"
        )
