"""Random numbers of data loading that depend on the sample, and not on the worker that loads it."""

import sys
from typing import Any

from holdfast_train.data import rng
from holdfast_train.errors import StateError

__all__ = ["Index", "SeededDataset"]


class Index(int):
    """The index of a sample: an int that also has the sample's `place` in the row of all epochs."""

    place: int

    def __new__(cls, index: int, place: int = -1) -> "Index":
        """`place` counts from the first sample of epoch 0."""
        found = super().__new__(cls, index)
        found.place = place
        return found


class SeededDataset:
    """A data set whose random numbers (of the global generators of Python, NumPy and torch) depend on the sample alone.

    The generators are seeded before each sample from the seed and the sample's place in the row of all epochs. So the
    numbers differ between epochs, and are the same in any worker, rank or process. Generators of a worker cannot do
    this: after a resume another worker loads the sample, at another place of its sequence. What a `collate_fn` draws
    in a worker depends on its batch alone. Without workers the generators are those of the training; their state is
    restored after each sample.

    Samples are read one by one (`__getitems__` of the data set is not used). The indices come from an ElasticSampler.
    """

    def __init__(self, dataset: Any, seed: int) -> None:
        self.dataset = dataset
        self._seed = seed

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.dataset)

    def __getitem__(self, index: Index) -> Any:
        """The sample. StateError if the index does not come from an ElasticSampler."""
        if not isinstance(index, Index):
            raise StateError(
                f"index {index!r} does not come from an ElasticSampler: give the loader batch_sampler=sampler"
            )
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
