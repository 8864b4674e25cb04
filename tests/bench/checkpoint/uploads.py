"""How fast a gigabyte in shared memory gets out: ours, what the socket allows, and others."""

import io
import os
import socket
from collections.abc import Callable
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

RAW, PLAIN, BOTO3, OBSTORE, TORCH = (
    "raw socket",
    "Holdfast, no sums given",
    "boto3 default",
    "obstore",
    "s3torchconnector",
)
GOALS = (
    Goal("upload ÷ raw socket", (RAW,), 0.85),
    Goal("upload ÷ boto3 default", (BOTO3,), 5.0),
    Goal("upload ÷ s3torchconnector", (TORCH,), 2.0),
    Goal("CPU s/GB uploaded", (), cpu=0.3),
)


def upload(size: int, rounds: int, say: Callable[[str], None]) -> Section:
    """All arms on `size` bytes."""
    absent = {name: reason for name in (OBSTORE, TORCH) if (reason := peers.missing(name))}
    with null_server(size) as port, shared_memory(size) as data:
        sums = chunk_sums(data)
        keys = Credentials("access", "secret")
        storage = S3Storage(peers.BUCKET, "prefix", S3Server(f"http://127.0.0.1:{port}", credentials=keys))
        client, content = peers.boto3_client(port), bytes(data)

        arms = [
            Arm(RAW, lambda: _raw(port, data, os.cpu_count() or 1)),
            Arm(OURS, lambda: storage.write(peers.KEY, data, sums=sums)),
            Arm(PLAIN, lambda: storage.write(peers.KEY, data)),
            Arm(BOTO3, lambda: client.upload_fileobj(io.BytesIO(content), peers.BUCKET, peers.KEY)),
            Arm(OBSTORE, lambda: _obstore(port, data)),
            Arm(TORCH, lambda: _torch(port, data)),
        ]
        arms = [arm for arm in arms if arm.name not in absent]
        return measure("Upload", arms, GOALS, tuple(absent.values()), size=size, rounds=rounds, say=say)


def _raw(port: int, data: memoryview, connections: int) -> None:
    """The bytes and nothing else, over as many connections as there are cores: the most that was found."""

    def send(number: int) -> None:
        step = -(-len(data) // connections)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"RAW\n")
            client.sendall(data[number * step : (number + 1) * step])
            client.shutdown(socket.SHUT_WR)
            client.recv(1)

    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(send, range(connections)))


def _obstore(port: int, data: memoryview) -> None:
    import obstore

    obstore.put(peers.obstore_store(port), peers.KEY, data, chunk_size=16 << 20, max_concurrency=8)


def _torch(port: int, data: memoryview) -> None:
    """In parts of 32 MiB and pieces of 1 MiB, where it was found to be fastest."""
    connector = peers.torch_connector(port, part_size=32 << 20)
    with connector.writer(f"s3://{peers.BUCKET}/{peers.KEY}") as writer:
        for at in range(0, len(data), 1 << 20):
            writer.write(data[at : at + (1 << 20)])
