"""What NCCL says of its own communicators: its RAS subsystem (reliability, availability and serviceability).

Each process that uses NCCL 2.24 or newer has a thread that answers in text on a socket of the node, also while the
program hangs. It knows which ranks of a communicator are missing or behind.

Source of the protocol: NVIDIA, NCCL documentation, "RAS", where `nc` sends it the line `verbose status`.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping

from holdfast_protocol import settings
from holdfast_protocol.gates import NCCL_RAS

ADDRESS = "localhost:28028"  # NCCL's default
CONNECT_SECONDS = 1.0
SECONDS = 15.0  # it asks all other processes first, and waits up to 5 s for those that do not answer
MOST_BYTES = 64 << 10


def ras_status(environment: Mapping[str, str]) -> str:
    """NCCL's report, empty if its gate is off or nothing answers.

    `environment`: of the program, which may name another address.
    """
    if not settings.read(environment).is_on(NCCL_RAS):
        return ""
    host, _, port = (environment.get("NCCL_RAS_ADDR") or ADDRESS).rpartition(":")
    if environment.get("NCCL_RAS_ENABLE") == "0" or not port.isdecimal():
        return ""
    data, deadline = b"", time.monotonic() + SECONDS
    place = (host.strip("[]") or "localhost", int(port))
    with contextlib.suppress(OSError), socket.create_connection(place, CONNECT_SECONDS) as connection:
        connection.sendall(b"verbose status\n")
        while len(data) < MOST_BYTES and (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            more = connection.recv(4096)
            if not more:
                break
            data += more
    return data[:MOST_BYTES].decode("utf-8", "replace")
