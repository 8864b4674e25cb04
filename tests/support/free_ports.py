"""Ports for servers of tests."""

import random
import socket
from pathlib import Path
from typing import Final

FIRST: Final = 10_000
_RANDOM: Final = random.SystemRandom()  # tests seed the other one


def free_port() -> int:
    """A port that nobody listens on now.

    The kernel gives it to no outgoing connection, and to no server that asks for any port. So it stays free until its
    server starts, and while that server starts again.
    """
    limit = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("", _RANDOM.randrange(FIRST, limit) if limit > 2 * FIRST else 0))
            except OSError:
                continue
            port: int = probe.getsockname()[1]
            return port
