import pytest
from tests.support.operator.fake_api_server import Clock

from holdfast.serve.connections import Bounds, Connections


class Link:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Server:
    """Connections within these bounds; every new one has its own port."""

    def __init__(self, **bounds: float) -> None:
        self.clock = Clock()
        values = {"unproven": 4, "seconds": 10.0, "rate": 1.0, "burst": 100.0, "for_owner": 2}
        self.connections = Connections(Bounds(**{**values, **bounds}), self.clock)  # type: ignore[arg-type]
        self.port = 0

    def open(self, source: str, port: int | None = None) -> tuple[tuple[str, int], Link | None]:
        """The peer, and its connection if it was taken in."""
        self.port += 1
        peer, link = (source, port or self.port), Link()
        return peer, link if self.connections.admit(peer, link) else None


def test_a_source_opens_connections_at_a_bounded_rate() -> None:
    server = Server(burst=3, unproven=100)
    assert [server.open("evil")[1] is not None for _ in range(5)] == [True] * 3 + [False] * 2
    assert server.open("pod")[1]
    server.clock.tick(1)
    assert server.open("evil")[1]


def test_a_valid_token_gives_its_part_of_the_rate_back() -> None:
    """Breaks if many pods behind one address cannot connect at once."""
    server = Server(burst=3)
    for number in range(50):
        peer, link = server.open("node")
        assert link
        server.connections.prove(peer, f"pod-{number}")
    assert (server.connections.unproven, server.connections.proven) == (0, 50)


def test_a_full_server_makes_room_at_the_cost_of_the_biggest_source() -> None:
    server = Server()
    evil = [server.open("evil")[1] for _ in range(4)]
    assert server.open("evil")[1] is None  # the biggest source gets no room at the cost of others
    _, pod = server.open("pod")
    assert pod
    assert not pod.closed
    assert [link.closed for link in evil if link] == [True, False, False, False]
    assert server.connections.unproven == 4


def test_sources_that_hold_as_much_as_the_new_one_keep_theirs() -> None:
    """Breaks if pods that connect at once throw each other out in the middle of a handshake."""
    server = Server()
    links = [server.open(f"pod-{number}")[1] for number in range(4)]
    assert server.open("pod-5")[1] is None
    assert not any(link.closed for link in links if link)


def test_idle_connections_of_many_sources_do_not_lock_out_another_one() -> None:
    """Breaks if pods with one silent connection each keep a kubelet from its probes."""
    server = Server()
    links = [server.open(f"pod-{number}")[1] for number in range(4)]
    server.clock.tick(1)
    assert server.open("kubelet")[1]
    assert [link.closed for link in links if link] == [True, False, False, False]


def test_a_connection_that_stays_unproven_is_closed_in_time() -> None:
    server = Server()
    _, silent = server.open("evil")
    peer, proven = server.open("pod")
    server.connections.prove(peer, "p1")
    server.clock.tick(9.9)
    server.connections.expire()
    assert silent and not silent.closed
    server.clock.tick(0.1)
    server.connections.expire()
    assert silent.closed
    assert proven and not proven.closed


def test_one_pod_keeps_few_connections() -> None:
    server = Server(for_owner=2)
    made = []
    for _ in range(5):
        peer, link = server.open("pod")
        server.connections.prove(peer, "p1")
        made.append(link)
        server.clock.tick(1)
    assert [link.closed for link in made if link] == [True, True, True, False, False]
    assert server.connections.proven == 2


@pytest.mark.parametrize("prove", [True, False])
def test_closed_connections_are_forgotten(prove: bool) -> None:
    server = Server()
    peer, link = server.open("pod")
    assert link
    if prove:
        server.connections.prove(peer, "p1")
    link.close()
    server.connections.expire()
    assert (server.connections.unproven, server.connections.proven) == (0, 0)
    assert not server.connections.is_proven(peer)


def test_a_port_that_is_used_again_has_to_prove_itself_again() -> None:
    server = Server()
    peer, _ = server.open("node", port=4000)
    server.connections.prove(peer, "p1")
    server.open("node", port=4000)
    assert not server.connections.is_proven(peer)


def test_a_connection_that_the_server_never_took_in_cannot_be_proven() -> None:
    server = Server()
    server.connections.prove(("pod", 1), "p1")
    assert not server.connections.is_proven(("pod", 1))
