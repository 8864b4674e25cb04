"""What commits and put backs of checkpoint.folder move and take, with a folder of 2 GB and an S3 store.

A commit after 1 % of the folder has changed: the bytes that reach the store, beside those of a tool that compares files
by their sizes and times, such as `aws s3 sync`, and uploads what has changed whole. A relay before the store counts the
bytes of both, with all requests.

A put back onto a node that has half of the 2 GB, as a share of a full one: half of the files, whole; or half of each
file, as of a node with an older save. The node and the store are folders in the memory of one machine: reading from the
store is as fast here as it can be, and what is saved by not reading it is as little as it can be.
"""

import asyncio
import os
import shutil
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from tests.bench.checkpoint import peers
from tests.bench.checkpoint.arms import turns
from tests.bench.folder import training
from tests.bench.folder.relay import Relay, relay
from tests.bench.folder.saved import BUCKET, SECRET_KEY, CommittedFolder, start_store, storage_at
from tests.bench.goals import Measured
from tests.support.http.s3_server import S3Server

from holdfast_train.folder.index import Index
from holdfast_train.folder.put_back import put_back

Change = Callable[[Path], list[Path]]

CHANGES: Final[dict[str, tuple[Change, str]]] = {
    "folder-middle": (training.change_middle, "one range of the largest file"),
    "folder-appended": (training.append, "appended to the largest file"),
    "folder-ranges": (training.change_ranges, "ranges of 1 MB all over the largest file"),
}
PAGES: Final = "folder-pages"  # changes every chunk: measured once
FULL: Final = "nothing"
NODES: Final[dict[str, tuple[Callable[[Path, Path], object], str]]] = {
    FULL: (lambda _, node: node.mkdir(), "nothing"),
    "files": (training.copy_half_of_the_files, "half of the files"),
    "chunks": (training.copy_half_of_each_file, "half of each file"),
}


async def measure(quick: bool) -> list[Measured]:
    """The medians over several rounds."""
    return await asyncio.to_thread(_measure, *((200, 2) if quick else (2000, 3)))


def _measure(megabytes: int, rounds: int) -> list[Measured]:
    size = megabytes * training.MEGABYTE
    with training.in_memory(5 * size) as place:
        root, store = place / "outputs", start_store(place / "store")
        try:
            training.make_files(root, size)
            with relay(store.port) as counted:
                saved = CommittedFolder(storage_at(counted.port, "job"), root)
                moved = list(_moved(saved, root, counted, rounds))
                known = saved.index
                known = saved.index  # the last change has left a folder whose data is all of one commit
            found = _put_backs(store, root, place / "node", known, rounds)
        finally:
            store.kill()
    return [*moved, *_results(found, known.size)]


def _moved(saved: CommittedFolder, root: Path, counted: Relay, rounds: int) -> Iterator[Measured]:
    saved.commit()
    first = root / training.LARGEST
    before_all = first.stat().st_size
    whole = _upload(first, counted) / first.stat().st_size  # bytes moved for each byte of a file
    ours: dict[str, list[float]] = {name: [] for name in CHANGES}
    others: dict[str, float] = {}

    def round_of(change: Change) -> tuple[float, float]:
        changed, before = change(root), counted.sent
        saved.commit()
        size = training.size_of(root)
        return 100 * (counted.sent - before) / size, 100 * whole * sum(p.stat().st_size for p in changed) / size

    for _ in range(rounds):
        for name, (change, _what) in CHANGES.items():
            mine, others[name] = round_of(change)
            ours[name].append(mine)
    size = training.size_of(root)
    for name, found in ours.items():
        note = f"{size / 1e9:.2f} GB, {CHANGES[name][1]}; {rounds} rounds, {min(found):.2f}% to {max(found):.2f}%"
        yield Measured(name, statistics.median(found), others[name], note=note)
    os.truncate(first, before_all)  # half of all bytes once more
    mine, other = round_of(training.change_pages)
    yield Measured(PAGES, mine, other, note=f"{size / 1e9:.2f} GB, pages of 4 KiB all over the large files; once")


def _upload(path: Path, counted: Relay) -> int:
    """Upload a file whole. The bytes that reached the store."""
    client, before = peers.boto3_client(counted.port, secret=SECRET_KEY), counted.sent
    client.upload_file(str(path), BUCKET, path.name)
    client.delete_object(Bucket=BUCKET, Key=path.name)
    return counted.sent - before


class PutBacks(NamedTuple):
    """Put backs onto one kind of node: the `seconds` that each took, and the bytes that each has `read`."""

    seconds: list[float]
    read: list[int]


def _put_backs(store: S3Server, root: Path, node: Path, known: Index, rounds: int) -> dict[str, PutBacks]:
    found = {name: PutBacks([], []) for name in NODES}
    storage = storage_at(store.port, "job")
    for number in range(rounds):
        for name in turns(list(NODES), number):
            NODES[name][0](root, node)
            before, began = store.written, perf_counter()
            put_back(storage, known, node)
            found[name].seconds.append(perf_counter() - began)
            found[name].read.append(store.written - before)
            shutil.rmtree(node)
    return found


def _results(found: dict[str, PutBacks], size: int) -> Iterator[Measured]:
    full = found[FULL]
    for name, (_, what) in NODES.items():
        if name == FULL:
            continue
        half = found[name]
        ratios = [one / whole for one, whole in zip(half.seconds, full.seconds, strict=True)]
        note = (
            f"{size / 1e9:.2f} GB, {what} there; {len(ratios)} rounds, {min(ratios):.2f} to {max(ratios):.2f}; a full "
            f"put back takes {statistics.median(full.seconds):.2f} s; the fastest of both kinds: "
            f"{min(half.seconds):.2f} ÷ {min(full.seconds):.2f} s"
        )
        yield Measured(f"folder-half-{name}", statistics.median(ratios), note=note)
        whole, part = statistics.median(full.read), statistics.median(half.read)
        note = f"a full put back reads {whole / size:.3f} of all bytes, this one {part / size:.3f}"
        yield Measured(f"folder-half-{name}-read", part / whole, note=note)
