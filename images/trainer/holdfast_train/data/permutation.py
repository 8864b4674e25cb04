"""A random order of any number of things, computed where it is asked for instead of being held in memory."""

import hashlib
import math
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Permutation", "in_epochs"]

ROUNDS: Final = 12  # with 8, not all orders of six things are equally likely
GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: the step of SplitMix64
Words = npt.NDArray[np.uint64]


class Permutation:
    """One of the orders of 0 … `size` - 1, chosen by `seed` and `epoch`. Holds twelve numbers, whatever the size.

    The generalised Feistel cipher of Black and Rogaway, "Ciphers with Arbitrary Finite Domains" (CT-RSA 2002, method
    3): a number is a place in a table of about sqrt(size) rows and columns; each round turns the row by a hash of the
    column or the other way round, which can be undone, so that no two numbers meet. The table may have a few places
    more than `size`: a number that lands on one of them goes through again until it does not (cycle walking). The hash
    is the output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). It is not meant to keep a secret.

    Written out here, so that the order does not change with a library's version: NumPy promises that of no generator.
    """

    def __init__(self, size: int, seed: int, epoch: int = 0) -> None:
        self.size = size
        self._rows = math.isqrt(max(size - 1, 0)) + 1
        self._columns = -(-size // self._rows)
        key = hashlib.shake_256(f"holdfast order/{seed}/{epoch}".encode()).digest(8 * ROUNDS)
        self._keys: Words = np.frombuffer(key, dtype="<u8").astype(np.uint64)

    def __call__(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """What stands at `places` of the order, each in 0 … `size` - 1; any shape."""
        found = self._encrypted(places.astype(np.uint64))
        while (outside := found >= np.uint64(self.size)).any():
            found[outside] = self._encrypted(found[outside])
        return found.astype(np.int64)

    def _encrypted(self, numbers: Words) -> Words:
        rows, columns = np.uint64(self._rows), np.uint64(self._columns)
        row, column = numbers // columns, numbers % columns
        for number, key in enumerate(self._keys):
            if number % 2 == 0:
                row = (row + _mixed(key + column * GOLDEN) % rows) % rows
            else:
                column = (column + _mixed(key + row * GOLDEN) % columns) % columns
        return row * columns + column


def _mixed(words: Words) -> Words:
    """64 bits in, 64 bits out, each of which hangs on all of those: the output function of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def in_epochs(places: npt.NDArray[np.int64], size: int, seed: int) -> npt.NDArray[np.int64]:
    """What stands at `places` (at least one) of an endless row: 0 … `size` - 1 in an order of its own in each epoch."""
    epochs, within = np.divmod(places, size)
    found = np.empty_like(places)
    for epoch in range(int(epochs.min()), int(epochs.max()) + 1):
        mine = epochs == epoch
        found[mine] = Permutation(size, seed, epoch)(within[mine])
    return found
