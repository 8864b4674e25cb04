"""What surrounds the batches of a data loader: a record of their order, and random numbers that depend on the batch."""

import hashlib
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast_train.data import rng

__all__ = ["Batch", "BatchOrder", "SeededBatches"]

WORD_BYTES = 8  # of the digest that stands for all batches of an epoch so far


class Batch(list[Any]):
    """The indices of one batch. `key` names its place: the epoch, and the number of the batch in it."""

    key: str


class BatchOrder:
    """A batch sampler that notes which batches `inner` gives. Everything else is that of `inner`.

    `epoch`: the epoch that is read. `first`: the number of its first batch that is given. `before_order`: called
    before `inner` draws the order. `digests`: number n stands for the first n + 1 batches of the epoch, and has 64
    bits. A loader reads ahead, so there are more of them than batches that were trained.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.epoch = self.first = 0
        self.before_order: Callable[[], None] | None = None
        self.digests = array("Q")

    def __getattr__(self, name: str) -> Any:
        """Called for what this class does not have."""
        if name == "inner":  # while the object is unpickled
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self.inner)

    def __iter__(self) -> Iterator[Batch]:
        """The batches of one epoch, from `first` on."""
        digests = self.digests = array("Q")
        so_far = hashlib.blake2b(digest_size=WORD_BYTES)
        if self.before_order is not None:
            self.before_order()
        for number, indices in enumerate(self.inner):
            so_far.update(repr(list(indices)).encode())
            digests.append(int.from_bytes(so_far.copy().digest(), "little"))
            if number < self.first:
                continue
            batch = Batch(indices)
            batch.key = f"{self.epoch}/{number}"
            yield batch


class SeededBatches:
    """A data set whose random numbers, and those of its collate function, depend on the batch alone.

    The global generators of Python, NumPy and torch are seeded from `seed` and the place of the batch before its first
    sample is read. So a batch is the same in any worker, and however far the loader reads ahead. Without workers the
    generators are those of the training: their state is restored after the batch is collated.
    """

    def __init__(self, dataset: Any, seed: str) -> None:
        self.dataset = dataset
        self._seed = seed
        self._before: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        """Called for what this class does not have."""
        if name == "dataset":  # while the object is unpickled
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        """One sample, as the data set itself gives it."""
        return self.dataset[index]

    def __getitems__(self, batch: Batch) -> Iterable[Any]:
        """The samples of a batch. torch's loader calls it; `collate` follows."""
        self._before = None if _in_worker() else rng.capture_host()
        rng.seed_host(f"{self._seed}/{batch.key}")
        try:
            read = getattr(self.dataset, "__getitems__", None)
            found: Iterable[Any] = read(list(batch)) if read else [self.dataset[index] for index in batch]
        except BaseException:
            self._restore()
            raise
        return found

    def collate(self, inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """`inner`, with the random numbers of the batch."""
        return _Collate(self, inner)

    def _restore(self) -> None:
        if self._before is not None:
            rng.restore_host(self._before)
            self._before = None


class _Collate:
    """A collate function; a class, so that a worker that is spawned can unpickle it."""

    def __init__(self, batches: SeededBatches, inner: Callable[[Any], Any]) -> None:
        self._batches, self._inner = batches, inner

    def __call__(self, samples: Any) -> Any:
        try:
            return self._inner(samples)
        finally:
            self._batches._restore()


def _in_worker() -> bool:
    torch_data: Any = sys.modules.get("torch.utils.data")
    return torch_data is not None and torch_data.get_worker_info() is not None
