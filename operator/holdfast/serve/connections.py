"""Which connections a server keeps: callers without a valid token cannot take them all, and cannot hold one for long.

A connection is unproven until a request on it has shown a valid token. Unproven connections are bounded in number, in
time, and in their rate from one source. A full server makes room at the cost of the source that holds the most.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from holdfast.serve.token_bucket import TokenBuckets

Peer = tuple[str, int]  # address and port of the other end

SOURCES = 20_000  # whose rates are remembered
HANDSHAKE_SECONDS = 1.0  # a connection that is older and has shown nothing is idle


@dataclass(frozen=True, slots=True)
class Bounds:
    """What callers may take, above all those without a valid token."""

    unproven: int = 512  # connections at once
    seconds: float = 10.0  # life of an unproven connection, the TLS handshake included
    rate: float = 10.0  # new connections of one source: a second; a proven one does not count
    burst: float = 100.0  # the same, at once
    for_owner: int = 8  # connections that one token's owner keeps; a further one replaces the oldest
    # until a refusal is sent on a connection that stays open: a refusal costs the processor as much as an answer
    refusal_seconds: float = 1.0


class Link(Protocol):
    """An open connection."""

    def close(self) -> None:
        """Close it now."""

    @property
    def closed(self) -> bool:
        """True if it is closed or closing."""


@dataclass(slots=True)
class _Open:
    link: Link
    since: float
    owner: str = ""  # of the valid token; empty while the connection is unproven


class Connections:
    """All open connections of one server. Times are of `clock`, in seconds."""

    def __init__(self, bounds: Bounds | None = None, clock: Callable[[], float] = monotonic) -> None:
        self.bounds = bounds or Bounds()
        self._clock = clock
        self._rates = TokenBuckets(self.bounds.rate, self.bounds.burst, SOURCES, clock)
        # Oldest first. The system uses a peer's address again only for a connection after the one that it was of.
        self._unproven: dict[Peer, _Open] = {}
        self._proven: dict[Peer, _Open] = {}
        self._of_owner: dict[str, set[Peer]] = {}

    @property
    def unproven(self) -> int:
        """Number of connections that have not shown a valid token."""
        return len(self._unproven)

    @property
    def proven(self) -> int:
        """Number of connections that have shown a valid token."""
        return len(self._proven)

    def is_proven(self, peer: Peer) -> bool:
        """True if a request on this connection has shown a valid token."""
        return peer in self._proven

    def admit(self, peer: Peer, link: Link) -> bool:
        """Take in a new connection; False if it must be closed now."""
        if not self._rates.try_acquire(peer[0]):
            return False
        if len(self._unproven) >= self.bounds.unproven:
            self._forget_closed(self._unproven)
        if len(self._unproven) >= self.bounds.unproven and not self._make_room(peer[0]):
            return False
        self._forget(peer)
        self._unproven[peer] = _Open(link, self._clock())
        return True

    def _make_room(self, source: str) -> bool:
        """Close the oldest connection of the source that holds the most; False if this source holds as many.

        Between sources that would then hold equally many, only a connection that is older than a handshake gives way:
        pods that connect at once do not throw each other out, and idle connections do not lock out a kubelet.
        """
        held = Counter(address for address, _ in self._unproven)
        biggest, most = held.most_common(1)[0]
        oldest = next(peer for peer in self._unproven if peer[0] == biggest)
        if held[source] >= most:
            return False
        if held[source] + 1 >= most and self._clock() - self._unproven[oldest].since < HANDSHAKE_SECONDS:
            return False
        self._close(oldest)
        return True

    def prove(self, peer: Peer, owner: str) -> None:
        """Record that a request on this connection showed a valid token of `owner`."""
        found = self._unproven.pop(peer, None)
        if found is None:
            return
        self._rates.give_back(peer[0])
        mine = self._of_owner.setdefault(owner, set())
        mine.add(peer)
        found.owner = owner
        self._proven[peer] = found
        if len(mine) > self.bounds.for_owner:
            self._close(min(mine, key=lambda one: self._proven[one].since))

    def expire(self) -> None:
        """Close every connection that stayed unproven for too long, and forget those that are closed."""
        self._forget_closed(self._unproven)
        self._forget_closed(self._proven)
        limit = self._clock() - self.bounds.seconds
        for peer in [peer for peer, one in self._unproven.items() if one.since <= limit]:
            self._close(peer)

    def _forget_closed(self, among: dict[Peer, _Open]) -> None:
        for peer in [peer for peer, one in among.items() if one.link.closed]:
            self._forget(peer)

    def _close(self, peer: Peer) -> None:
        if found := self._forget(peer):
            found.link.close()

    def _forget(self, peer: Peer) -> _Open | None:
        if found := self._unproven.pop(peer, None):
            return found
        if found := self._proven.pop(peer, None):
            mine = self._of_owner[found.owner]
            mine.discard(peer)
            if not mine:
                del self._of_owner[found.owner]
        return found
