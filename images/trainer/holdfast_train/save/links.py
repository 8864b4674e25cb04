"""Which rank of another node keeps the copies of this rank's state: see `copies`."""

import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast_train.environment import Environment
from holdfast_train.ranks import Ranks
from holdfast_train.say import say


@dataclass(frozen=True)
class CopyLinks:
    """Copies go to the rank that listens at `to` (host and port) and expects `to_token`.

    Others send here, with `token`. `listener`: the descriptor of the socket that they connect to.
    """

    to: tuple[str, int]
    to_token: bytes
    token: bytes
    listener: int


class Links(NamedTuple):
    """As the writer gets them, and the socket, which stays open as long as a writer may need it."""

    names: CopyLinks
    listener: socket.socket


def link(environment: Environment, ranks: Ranks) -> Links | None:
    """Link each rank with one of the next node. All ranks call it together, and get None if one cannot listen."""
    if not environment.settings.peers or environment.nodes == 1 or ranks.size == 1:
        return None
    token, listener = secrets.token_bytes(16), _listen(environment.pod_ip)
    mine = None if listener is None else (listener.getsockname(), token)
    places = ranks.share(ranks.gather((environment.identity.pod_uid, mine)))
    if listener is None or any(place is None for _, place in places):
        say("no copies of the state are sent to other nodes: a rank cannot listen at the address of its pod")
        if listener is not None:
            listener.close()
        return None
    to, to_token = places[next_rank([uid for uid, _ in places], ranks.rank)][1]
    return Links(CopyLinks(to[:2], to_token, token, listener.fileno()), listener)


def next_rank(nodes: Sequence[str], rank: int) -> int:
    """The rank that keeps the copy of `rank`: the one with the same place on the next node. `nodes`: of each rank."""
    order = list(dict.fromkeys(nodes))
    after = order[(order.index(nodes[rank]) + 1) % len(order)]
    place = [number for number, node in enumerate(nodes) if node == nodes[rank]].index(rank)
    there = [number for number, node in enumerate(nodes) if node == after]
    return there[place % len(there)]


def _listen(address: str | None) -> socket.socket | None:
    if address is None:
        return None
    try:
        return socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError:
        return None
