"""A random order of any number of things, computed place by place instead of being kept in memory."""

import hashlib
import math
from typing import Final

import numpy as np
import numpy.typing as npt

ROUNDS: Final = 12  # with 8, not all orders of six things are equally likely
GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: the step of SplitMix64
Words = npt.NDArray[np.uint64]


class Permutation:
    """An order of 0 … `size` - 1, chosen by `seed` and `epoch`. It keeps twelve numbers in memory for any size.

    The generalised Feistel cipher of Black and Rogaway, "Ciphers with Arbitrary Finite Domains" (CT-RSA 2002, method
    3): a number is a place in a table of about sqrt(size) rows and columns. Each round shifts the row by a hash of the
    column, or the column by a hash of the row. A round can be undone, so two numbers never get the same place. The
    table may have a few more places than `size`: a number that gets one of them is encrypted again until it does not
    (cycle walking). The hash is the output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). The order is
    not a secret.

    The code is here and not in a library so that the order never changes: NumPy does not guarantee that for any of its
    generators.
    """

    def __init__(self, size: int, seed: int, epoch: int = 0) -> None:
        self.size = size
        self._rows = math.isqrt(max(size - 1, 0)) + 1
        self._columns = -(-size // self._rows)
        key = hashlib.shake_256(f"holdfast order/{seed}/{epoch}".encode()).digest(8 * ROUNDS)
        self._keys: Words = np.frombuffer(key, dtype="<u8").astype(np.uint64)

    def __call__(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The numbers at `places` of the order, each place in 0 … `size` - 1; any shape."""
        found = self._encrypt(places.astype(np.uint64))
        while (outside := found >= np.uint64(self.size)).any():
            found[outside] = self._encrypt(found[outside])
        return found.astype(np.int64)

    def _encrypt(self, numbers: Words) -> Words:
        rows, columns = np.uint64(self._rows), np.uint64(self._columns)
        row, column = numbers // columns, numbers % columns
        for number, key in enumerate(self._keys):
            if number % 2 == 0:
                row = (row + _mix(key + column * GOLDEN) % rows) % rows
            else:
                column = (column + _mix(key + row * GOLDEN) % columns) % columns
        return row * columns + column


def _mix(words: Words) -> Words:
    """The output function of SplitMix64: each of the 64 output bits depends on all 64 input bits."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def in_epochs(places: npt.NDArray[np.int64], size: int, seed: int) -> npt.NDArray[np.int64]:
    """The numbers at `places` (at least one) of an endless row: 0 … `size` - 1 in a new order in each epoch."""
    epochs, within = np.divmod(places, size)
    found = np.empty_like(places)
    for epoch in range(int(epochs.min()), int(epochs.max()) + 1):
        mine = epochs == epoch
        found[mine] = Permutation(size, seed, epoch)(within[mine])
    return found
