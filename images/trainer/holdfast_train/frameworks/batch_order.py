"""What surrounds the batches of a data loader: a record of their order, and random numbers that depend on the batch."""

import hashlib
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast_train.data.own_generators import Repeatable
from holdfast_train.frameworks.kept_workers import separate_workers

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

    The global generators of Python, NumPy and torch, and those that data set and collate function carry, are seeded
    from `seed` and the place of the batch before its first sample is read: see `Repeatable`. So a batch is the same in
    any worker, and however far the loader reads ahead.
    """

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], seed: str) -> None:
        vars(self).update(dataset=dataset, _collate=collate, _seed=seed)
        vars(self)["_repeatable"] = Repeatable(data=dataset, collate=collate)

    def __getattr__(self, name: str) -> Any:
        """Called for what this class does not have."""
        if name == "dataset":  # while the object is unpickled
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """A worker_init_fn sets attributes of the data set."""
        setattr(self.dataset, name, value)

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        """One sample, as the data set itself gives it."""
        return self.dataset[index]

    def __getitems__(self, batch: Batch) -> Batch:
        """The batch itself: `collate`, which torch's loader calls next, reads its samples."""
        return batch

    def collate(self, batch: Batch) -> Any:
        """Read the samples of `batch`, and collate them."""
        return self._repeatable.call(f"{self._seed}/{batch.key}", lambda: self._collate(self._read(batch)))

    def _read(self, batch: Batch) -> Iterable[Any]:
        read = getattr(self.dataset, "__getitems__", None)
        found: Iterable[Any] = read(list(batch)) if read else [self.dataset[index] for index in batch]
        return found


def seed_batches(loader: Any, seed: str) -> BatchOrder:
    """Let the random numbers of the batches of `loader`, a DataLoader of torch, depend on `seed` and their places."""
    order = BatchOrder(loader.batch_sampler)
    data = SeededBatches(loader.dataset, loader.collate_fn, seed)
    # A DataLoader refuses to have these set; a new one would be none of the library's own class.
    vars(loader).update(batch_sampler=order, dataset=data, collate_fn=data.collate)
    loader._iterator = None  # workers that stay have the data set of before
    separate_workers(loader)
    return order


def seed_evaluation(loader: Any, *, seed: int, rank: int) -> None:
    """Let `loader`, of an evaluation, give the same batches in each evaluation, and change no step that follows.

    A generator that its data set or collate function carries, maybe that of the training, is in no checkpoint: without
    this, the evaluations after a resume would be others.
    """
    torch_data: Any = sys.modules["torch.utils.data"]
    if not isinstance(loader, torch_data.DataLoader) or isinstance(loader.dataset, SeededBatches):
        return
    if isinstance(loader.dataset, torch_data.IterableDataset) or loader.batch_sampler is None:
        separate_workers(loader)
    else:
        seed_batches(loader, f"{seed}/{rank}/evaluation")
