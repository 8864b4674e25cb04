"""Loaders whose workers stay for the next epoch (persistent_workers=True)."""

import sys
from typing import Any


def separate_workers(loader: Any) -> None:
    """Let `loader`, a DataLoader of torch, draw the seed of its workers from a generator of its own.

    A loader draws a number where it makes workers, and none where it keeps them. After a resume the workers are new: a
    number from the generator of the training would change the steps that follow. A loader that has a generator, or
    makes workers in each epoch, is left as it is.
    """
    if getattr(loader, "persistent_workers", False) and loader.generator is None:
        loader.generator = sys.modules["torch"].Generator()


def renew_workers(loader: Any) -> None:
    """An epoch of `loader`, a DataLoader of torch, begins: let it make new workers if its data set has `set_epoch`.

    Workers that stay have the data set as it was in the epoch in which they were made; after a resume that would be
    another epoch.
    """
    if hasattr(loader.dataset, "set_epoch"):
        loader._iterator = None
