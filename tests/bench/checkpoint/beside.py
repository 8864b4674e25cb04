"""How much longer a step takes while a checkpoint is uploaded at a limited rate."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.checkpoint import peers
from tests.bench.checkpoint.memory import shared_memory
from tests.bench.checkpoint.null_server import null_server
from tests.bench.checkpoint.section import Section, at_most
from tests.bench.checkpoint.training import Training, device_name

from holdfast_train.environment import Credentials
from holdfast_train.format.manifest import PART_BYTES
from holdfast_train.save.writer import BURST_BYTES, NICENESS
from holdfast_train.storage.base import Storage
from holdfast_train.storage.checksums import chunk_sums
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.storage.rate_limit import RateLimit
from holdfast_train.storage.s3 import S3Storage
from holdfast_train.storage.s3_server import S3Server

RATE: Final = 3e8
SIZE: Final = 1 << 30
BATCH, STATE = 256, 64  # steps of a tenth of a second or so, and MB
LIMIT: Final = 1.05 if (os.cpu_count() or 1) <= 2 else 1.01
BARE: Final = "a bare socket"
BLOCK: Final = 1 << 20


def beside(rounds: int, say: Callable[[str], None]) -> Section:
    """Steps with and without an upload of a GiB, in turns: to S3, into a folder, and out of a bare socket."""
    training = Training(STATE, BATCH, device_name())
    ratios: dict[str, list[float]] = {}
    with null_server(SIZE) as port, tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        places = {"S3": f"http://127.0.0.1:{port}", BARE: f"raw://127.0.0.1:{port}", "a folder": folder}
        for title, address in places.items():
            with _uploader(address) as upload:
                ratios[title] = [_round(training, upload) for _ in range(rounds + 1)][1:]
            say(title)
    return Section(
        title=f"Steps beside an upload at {RATE / 1e9:g} GB/s",
        head=("upload to", "step with ÷ without, median", "least", "most"),
        rows=tuple(
            (title, *(f"{figure:.3f}" for figure in (median(found), min(found), max(found))))
            for title, found in ratios.items()
        ),
        verdicts=tuple(
            at_most(f"step while uploading to {title}", median(found), LIMIT)
            for title, found in ratios.items()
            if title != BARE
        ),
        notes=(
            f"A GiB in each of {rounds} rounds, by a process with the writer's priority, checksums and rate. "
            "The training uses all cores, and the S3 server shares them too.",
            f"{BARE.capitalize()}: the same bytes to the same server at the same rate and priority, with no checksums "
            "and no requests: what the machine takes for it in any case.",
        ),
        rounds=ratios,
    )


def _round(training: Training, upload: Callable[[], Callable[[], bool]]) -> float:
    done = upload()
    during = [training.step()]
    while not done():
        during.append(training.step())
    without = [training.step() for _ in during]
    return median(during[1:-1] or during) / median(without)


@contextmanager
def _uploader(address: str) -> Iterator[Callable[[], Callable[[], bool]]]:
    """Yields what starts an upload and gives what says whether it is done."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.checkpoint.beside", address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    output = process.stdout.fileno()
    os.set_blocking(output, False)

    def done() -> bool:
        try:
            said = os.read(output, 1)
        except BlockingIOError:
            return False
        if not said:
            raise RuntimeError("the uploader has ended; what it has to say of that is above")
        return True

    def start() -> Callable[[], bool]:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        return done

    while not done():  # it has its bytes
        time.sleep(0.05)
    try:
        yield start
    finally:
        process.stdin.close()
        process.wait()


def _serve(address: str) -> None:
    """In a process of its own: upload once for every line."""
    os.nice(NICENESS)
    send = _sender(address, RateLimit(RATE, BURST_BYTES))
    with shared_memory(SIZE) as view:
        sys.stdout.write(".")
        sys.stdout.flush()
        for _ in sys.stdin:
            for at in range(0, SIZE, PART_BYTES):
                send(f"data/{at}", view[at : at + PART_BYTES])
            sys.stdout.write(".")
            sys.stdout.flush()


def _sender(address: str, rate: RateLimit) -> Callable[[str, memoryview], None]:
    """What sends one object to `address`."""
    scheme, _, host = address.rpartition("//")
    if scheme == "raw:":
        connection = socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2])))
        connection.sendall(b"RAW\n")

        def send(_: str, data: memoryview) -> None:
            for at in range(0, len(data), BLOCK):
                rate.wait(BLOCK)
                connection.sendall(data[at : at + BLOCK])

        return send
    keys = Credentials("access", "secret")
    store: Storage = (
        S3Storage(peers.BUCKET, "prefix", S3Server(address, credentials=keys))
        if scheme == "http:"
        else FolderStorage(Path(address))
    )
    return lambda key, data: store.write(key, data, sums=chunk_sums(data), rate=rate)


if __name__ == "__main__":
    _serve(sys.argv[1])
