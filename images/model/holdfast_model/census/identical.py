"""Samples with the same bytes. Only files that share their size with another one are read."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from holdfast_model.census.sample import Seen

THREADS: Final = 8
AT_ONCE: Final = 1024
"""Files that wait to be read."""
DIGEST: Final = 16
"""Bytes of a hash: two of 10^9 different files have the same one with a probability of 10^-21."""


class Known(NamedTuple):
    """A sample that may have a twin. `digest`: of its bytes, empty if its file has to be read."""

    split: str
    label: str
    name: str
    file: Path | None
    digest: bytes = b""


def digest_of(content: bytes) -> bytes:
    """The hash that `Known` has."""
    return hashlib.blake2b(content, digest_size=DIGEST).digest()


def groups(
    by_size: dict[int, list[Known]], seen: Seen, begin: Callable[[int], Callable[[int], None]]
) -> Iterator[list[Known]]:
    """Each group of two samples or more with the same bytes. `begin`: of a progress bar, in files."""
    twins = [same for same in by_size.values() if len(same) > 1]
    to_read = sum(1 for same in twins for one in same if not one.digest)
    advance = begin(to_read)
    found: defaultdict[bytes, list[Known]] = defaultdict(list)
    every = (one for same in twins for one in same)
    with ThreadPoolExecutor(THREADS) as pool:
        while some := list(islice(every, AT_ONCE)):
            for one, digest in zip(some, pool.map(_digest, some), strict=True):
                if isinstance(digest, bytes):
                    found[digest].append(one)
                else:
                    seen.add("unreadable", f"{one.name}: {digest}")
            advance(sum(1 for one in some if not one.digest))
    yield from (same for same in found.values() if len(same) > 1)


def _digest(known: Known) -> bytes | str:
    """The hash, or in words why there is none."""
    if known.digest or known.file is None:
        return known.digest
    try:
        with known.file.open("rb") as file:
            made = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST))
    except OSError as error:
        return error.strerror or str(error)
    return made.digest()
