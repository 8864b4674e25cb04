"""How fast a gigabyte gets into memory that is there already: ours, and raw ranged readers."""

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.bench.checkpoint import peers
from tests.bench.checkpoint.arms import OURS, Arm, Goal, measure
from tests.bench.checkpoint.memory import shared_memory
from tests.bench.checkpoint.null_server import null_server
from tests.bench.checkpoint.section import Section

from holdfast_train.environment import Credentials
from holdfast_train.storage.checksums import chunk_sums
from holdfast_train.storage.s3 import S3Storage
from holdfast_train.storage.s3_server import S3Server

RANGE = 64 << 20
OBSTORE_RANGE = 32 << 20
THREADS = 4
RAW, CHECKED, BOTO3, OBSTORE, CURL, TORCH = (
    "raw socket", "Holdfast, CRC of all", "boto3 threads", "obstore", "curl", "s3torchconnector",
)  # fmt: skip
GOALS = (
    Goal("restore ÷ fastest raw ranged reader", (BOTO3, OBSTORE, CURL), 0.9),
    Goal("restore ÷ s3torchconnector", (TORCH,), 3.0),
)


def restore(size: int, rounds: int, say: Callable[[str], None]) -> Section:
    """All arms on `size` bytes."""
    absent = {name: reason for name in (OBSTORE, TORCH) if (reason := peers.missing(name))}
    if not shutil.which("curl"):
        absent[CURL] = "curl is not installed, so it was not measured"
    with null_server(size) as port, shared_memory(size) as view:
        keys = Credentials("access", "secret")
        storage = S3Storage(peers.BUCKET, "prefix", S3Server(f"http://127.0.0.1:{port}", credentials=keys))
        client = peers.boto3_client(port, max_pool_connections=THREADS)

        def ours(start: int, piece: memoryview) -> None:
            storage.read_into(peers.KEY, start, piece)

        def checked(start: int, piece: memoryview) -> None:
            storage.read_into(peers.KEY, start, piece)
            chunk_sums(piece)

        def plain(start: int, piece: memoryview) -> None:
            wanted = f"bytes={start}-{start + len(piece) - 1}"
            body, done = client.get_object(Bucket=peers.BUCKET, Key=peers.KEY, Range=wanted)["Body"], 0
            while done < len(piece):
                done += body.readinto(piece[done : done + (1 << 20)])

        def by_obstore(start: int, piece: memoryview) -> None:
            import obstore

            store = peers.obstore_store(port)
            piece[:] = memoryview(obstore.get_range(store, peers.KEY, start=start, length=len(piece)))

        def by_hand(start: int, piece: memoryview) -> None:
            _raw(port, start, piece)

        def threads(read: Callable[[int, memoryview], None], step: int = RANGE) -> Callable[[], None]:
            return lambda: _in_threads(read, view, step)

        arms = [
            Arm(RAW, threads(by_hand)),
            Arm(OURS, threads(ours)),
            Arm(CHECKED, threads(checked)),
            Arm(BOTO3, threads(plain)),
            Arm(OBSTORE, threads(by_obstore, OBSTORE_RANGE)),
            Arm(CURL, lambda: _curl(port, size)),
            Arm(TORCH, lambda: _torch(port, view)),
        ]
        arms = [arm for arm in arms if arm.name not in absent]
        return measure("Restore", arms, GOALS, tuple(absent.values()), size=size, rounds=rounds, say=say)


def _pieces(view: memoryview, step: int) -> Iterator[tuple[int, memoryview]]:
    return ((at, view[at : at + step]) for at in range(0, len(view), step))


def _in_threads(read: Callable[[int, memoryview], None], view: memoryview, step: int) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda piece: read(*piece), _pieces(view, step)))


def _raw(port: int, start: int, piece: memoryview) -> None:
    """One request by hand, received into memory: the least that a reader can do."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"GET / HTTP/1.1\r\nRange: bytes={start}-{start + len(piece) - 1}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(1)
        done = 0
        while done < len(piece):
            done += client.recv_into(piece[done:])


def _curl(port: int, size: int) -> None:
    """Several at once, each a range, and the bytes thrown away: more than a reader into memory can hope for."""
    step = -(-size // THREADS)
    url = f"http://127.0.0.1:{port}/{peers.BUCKET}/{peers.KEY}"
    running = [
        subprocess.Popen(["curl", "-s", "-f", "-o", "/dev/null", "-r", f"{at}-{min(size, at + step) - 1}", url])
        for at in range(0, size, step)
    ]
    codes = [process.wait() for process in running]
    if any(codes):
        raise RuntimeError("curl failed")


def _torch(port: int, view: memoryview) -> None:
    """With a target of 100 Gbit/s, where it was found to be fastest."""
    connector = peers.torch_connector(port, throughput_target_gbps=100.0)
    with connector.reader(f"s3://{peers.BUCKET}/{peers.KEY}") as reader:
        done = 0
        while done < len(view) and (count := reader.readinto(view[done:])):
            done += count
    if done < len(view):
        raise RuntimeError(f"s3torchconnector read {done} of {len(view)} bytes")
