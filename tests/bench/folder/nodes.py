"""Nodes of one training, each a process with a part of a checkpoint in a folder of its own, and one store for all.

    python -m tests.bench.folder.nodes FOLDER STORE-PORT NUMBER COUNT

A process gets two lines for each upload: a way and a prefix, which it answers when it is ready, and an empty line, on
which it uploads, and which it answers when the part is in the store.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import IO, Final

from tests.bench.checkpoint import peers
from tests.bench.folder.saved import BUCKET, SECRET_KEY, CommittedFolder, storage_at

from holdfast_train.folder.uploads import OBJECT_BYTES
from holdfast_train.storage.checksums import chunk_sums


@dataclass(frozen=True)
class Part:
    """What the node `number` of `count` has in `folder`, for the checkpoint below `prefix` in the store at `port`."""

    folder: Path
    port: int
    number: int
    count: int
    prefix: str

    @property
    def files(self) -> list[Path]:
        """All of the part."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file())


Upload = Callable[[], object]


def _commit(part: Part) -> Upload:
    """A commit of this folder alone."""
    return CommittedFolder(storage_at(part.port, f"{part.prefix}/{part.number}"), part.folder).commit


def _plain(part: Part) -> Upload:
    """The bytes with the checksums that the store checks, in objects as large as those of a commit, and no more."""
    storage = storage_at(part.port, f"{part.prefix}/{part.number}")

    def upload() -> None:
        for path in part.files:
            with path.open("rb") as opened:
                count = 0
                while data := bytearray(OBJECT_BYTES):
                    if not (size := opened.readinto(data)):
                        break
                    with memoryview(data)[:size] as view:
                        storage.write(f"data/{path.name}/{count}", view, sums=chunk_sums(view))
                    count += 1

    return upload


def _boto3(part: Part) -> Upload:
    """boto3 as shipped, a file after the other."""
    client = peers.boto3_client(part.port, secret=SECRET_KEY)

    def upload() -> None:
        for path in part.files:
            client.upload_file(str(path), BUCKET, f"{part.prefix}/{part.number}/{path.name}")

    return upload


COMMIT, PLAIN, BOTO3 = "commit", "plain", "boto3"
# A way gets a part ready and returns what uploads it. For one commit of all nodes, only COMMIT has to be another one:
# it knows its number and the count of the nodes, and all of them have the same prefix.
WAYS: Final[dict[str, Callable[[Part], Upload]]] = {COMMIT: _commit, PLAIN: _plain, BOTO3: _boto3}


class Node:
    """The process of one node, from this side."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to: IO[str] = process.stdin
        self._of: IO[str] = process.stdout

    def tell(self, line: str) -> None:
        """Send it a line."""
        self._to.write(f"{line}\n")
        self._to.flush()

    def wait(self) -> None:
        """Until it has answered a line."""
        if not self._of.readline():
            raise RuntimeError("the process of a node has ended; what it has to say of that is above")


@contextmanager
def nodes(folders: Sequence[Path], port: int) -> Iterator[list[Node]]:
    """A process for each of `folders`, inside the block."""
    with ExitStack() as running:
        made = []
        for number, folder in enumerate(folders):
            command = [sys.executable, "-m", __name__, str(folder), str(port), str(number), str(len(folders))]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            made.append(Node(running.enter_context(process)))
        yield made


def upload_at_once(members: Sequence[Node], way: str, prefix: str) -> float:
    """Seconds until each of `members` has uploaded its part. All of them begin at the same time."""
    for line in (f"{way} {prefix}", ""):
        began = perf_counter()
        for member in members:
            member.tell(line)
        for member in members:
            member.wait()
    return perf_counter() - began


def main(folder: str, port: str, number: str, count: str) -> None:
    """Upload until standard input is closed."""
    for line in sys.stdin:
        way, prefix = line.split()
        upload = WAYS[way](Part(Path(folder), int(port), int(number), int(count), prefix))
        print("ready", flush=True)
        sys.stdin.readline()
        upload()
        print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
