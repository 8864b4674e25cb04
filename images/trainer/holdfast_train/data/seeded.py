"""Random numbers of data loading that depend on the sample, and not on the worker that loads it."""

import sys
from collections.abc import Callable
from copy import copy
from typing import Any

from holdfast_train.data.own_generators import Repeatable
from holdfast_train.errors import StateError


class Index(int):
    """The index of a sample: an int that also has the sample's `place` in the row of all epochs."""

    place: int

    def __new__(cls, index: int, place: int = -1) -> "Index":
        """`place` counts from the first sample of epoch 0."""
        found = super().__new__(cls, index)
        found.place = place
        return found


class SeededDataset:
    """A data set whose random numbers depend on the sample alone: of the global generators of Python, NumPy and torch,
    and of generators that the data set carries (see `Repeatable`).

    The generators are seeded before each sample from the seed and the sample's place in the row of all epochs. So the
    numbers differ between epochs, and are the same in any worker, rank or process. Generators of a worker cannot do
    this: after a resume another worker loads the sample, at another place of its sequence. Without workers the
    generators are those of the training; their state is restored after each sample.

    Samples are read one by one (`__getitems__` of the data set is not used). The indices come from an ElasticSampler.
    StateError names a generator that cannot be seeded.
    """

    def __init__(self, dataset: Any, seed: int) -> None:
        _refuse_iterable(dataset)
        self.dataset = dataset
        self._seed = seed
        self._place = -1  # of the sample that was read last
        self._repeatable = Repeatable(data=dataset)

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.dataset)

    def __getitem__(self, index: Index) -> Any:
        """The sample. StateError if the index does not come from an ElasticSampler."""
        if not isinstance(index, Index):
            raise StateError(
                f"index {index!r} does not come from an ElasticSampler: give the loader batch_sampler=sampler"
            )
        self._place = index.place
        return self._repeatable.call(f"{self._seed}/{index.place}", lambda: self.dataset[int(index)])

    def collate(self, inner: Callable[[Any], Any]) -> "SeededCollate":
        """`inner`, with random numbers that depend on the samples of the batch alone."""
        return SeededCollate(self, inner)


class SeededCollate:
    """A collate function; a class, so that a worker that is spawned can unpickle it.

    The loader calls it in the process that has read the samples, directly after the last one.
    """

    def __init__(self, data: SeededDataset, inner: Callable[[Any], Any]) -> None:
        self._data, self._inner = data, inner
        self._repeatable = Repeatable(collate=inner)

    def __call__(self, samples: Any) -> Any:
        """One batch of `samples`."""
        key = f"{self._data._seed}/{self._data._place}/collate"
        # Copies, because it may be called once more, and some functions take values out of the samples.
        return self._repeatable.call(key, lambda: self._inner([copy(x) if isinstance(x, dict) else x for x in samples]))


def _refuse_iterable(dataset: Any) -> None:
    torch_data: Any = sys.modules.get("torch.utils.data")
    if torch_data is not None and isinstance(dataset, torch_data.IterableDataset):
        raise StateError(
            f"the data set {type(dataset).__name__} is an IterableDataset: it has no samples that an order could name. "
            f"Use a data set with __getitem__ and __len__"
        )
