"""Random numbers of data loading that follow from the sample, not from the worker that happens to load it."""

import sys
from typing import Any

from holdfast_train.data import rng
from holdfast_train.errors import StateError

__all__ = ["Index", "Seeded"]


class Index(int):
    """The index of a sample, an int like any other, which also knows its `place` in the row of all epochs."""

    place: int

    def __new__(cls, index: int, place: int = -1) -> "Index":
        """`place`: counted from the first sample of epoch 0."""
        found = super().__new__(cls, index)
        found.place = place
        return found


class Seeded:
    """A data set whose random numbers (Python's, NumPy's and torch's global ones) are the sample's own.

    They are seeded before each sample, from the seed and the sample's place in the row of all epochs: in another epoch
    they are others, and in another worker, rank, world or process they are the same. Numbers of a worker cannot do
    this: after a resume another worker loads the sample, at another place of its own sequence. What a `collate_fn`
    draws in a worker follows from its batch. Without workers the generators are the training's own, and are put back.

    Samples are read one by one (`__getitems__` of the data set is not used). The indices come from an ElasticSampler.
    """

    def __init__(self, dataset: Any, seed: int) -> None:
        self.dataset = dataset
        self._seed = seed

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.dataset)

    def __getitem__(self, index: Index) -> Any:
        """The sample. StateError if the index was not made by an ElasticSampler."""
        if not isinstance(index, Index):
            raise StateError(f"index {index!r} is not of an ElasticSampler: give the loader batch_sampler=sampler")
        before = None if _in_worker() else rng.capture_host()
        rng.seed_host(f"{self._seed}/{index.place}")
        try:
            return self.dataset[int(index)]
        finally:
            if before is not None:
                rng.restore_host(before)


def _in_worker() -> bool:
    torch_data: Any = sys.modules.get("torch.utils.data")
    return torch_data is not None and torch_data.get_worker_info() is not None
