"""How an error reads if the process at the other end of a connection is gone.

With several nodes, one program that fails takes all others down. Their errors say only that another one ended first.
"""

from __future__ import annotations

import re

# What gloo, NCCL, and torch's store, process groups and launcher say.
_GONE = re.compile(
    r"Connection (?:reset|closed|refused)|closed by (?:remote )?peer|Broken pipe|Socket closed"
    r"|DistStoreError|DistNetworkError|DistBackendError|RendezvousConnectionError|RendezvousClosedError"
    r"|ncclRemoteError|ncclSystemError|NCCL communicator was aborted|Some NCCL operations have failed or timed out"
    r"|\[[^\]]*gloo/transport[^\]]*\]|Timed out waiting \d+ms for (?:recv|send) operation"
    r"|exitcode *: *-6\b",  # in torchrun's table: torch's watchdog aborts a process whose collective does not end
    re.IGNORECASE,
)


def says_peer_is_gone(message: str) -> bool:
    """True if the message of an error says that the process at the other end is gone."""
    return bool(_GONE.search(message))
