"""`TimedLoader`: torch's DataLoader, which says how long training waits for it. Imports torch."""

from typing import Any

from torch.utils.data import DataLoader

from holdfast_train.data_wait import DATA_WAIT


class TimedLoader(DataLoader[Any]):
    """A DataLoader in all that it does. The time inside `next` of its iterators is added to DATA_WAIT."""

    def __iter__(self) -> Any:
        return DATA_WAIT.iterator(super().__iter__())
