"""Samples with the same bytes, and what their groups add up to. Only files that share their size are read."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from holdfast_model.census.sample import Seen
from holdfast_model.census.summary import Twins

THREADS: Final = 8
AT_ONCE: Final = 1024
"""Files that wait to be read."""
DIGEST: Final = 16
"""Bytes of a hash: two of 10^9 different files have the same one with a probability of 10^-21."""
MOST_EXAMPLES: Final = 20
MOST_TWINS_NAMED: Final = 6


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


def add_up(found: Iterator[list[Known]]) -> Twins:
    """Count the groups, and keep the names of some."""
    within = across = conflicts = 0
    kinds: dict[str, list[tuple[str, list[str]]]] = {"across splits": [], "different labels": [], "same split": []}
    for same in found:
        splits, labels = {one.split for one in same}, {one.label for one in same}
        within += len(same) - len(splits)
        across += len(splits) > 1
        conflicts += len(labels) > 1
        kind = "across splits" if len(splits) > 1 else "different labels" if len(labels) > 1 else "same split"
        if len(kinds[kind]) < MOST_EXAMPLES:
            names = [f"{one.split + ': ' if one.split and one.file is None else ''}{one.name}" for one in same]
            kinds[kind].append((kind, sorted(names)[:MOST_TWINS_NAMED]))
    examples = [example for some in kinds.values() for example in some][:MOST_EXAMPLES]
    return Twins(within, across, conflicts, examples)
