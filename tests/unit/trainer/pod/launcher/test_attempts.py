"""Ports for several nodes. The attempts themselves: tests/integration/trainer/test_several_nodes.py."""

import socket
import threading
from collections.abc import Mapping, Sequence

import pytest
from tests.support.trainer.pod_settings import pod_variables

from holdfast_protocol.member import MemberOrder
from holdfast_train.pod.launcher import attempts
from holdfast_train.pod.launcher.attempts import HeldPort
from holdfast_train.pod.launcher.connection import Target
from holdfast_train.pod.launcher.member import Member, attempt_variables
from holdfast_train.pod.launcher.program import Starter
from holdfast_train.pod.launcher.timings import Timings


# Breaks if another process can get the port while this node waits for the others, or if the program cannot get it.
def test_a_port_is_held_until_it_is_released() -> None:
    held = HeldPort("127.0.0.2")
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.2", held.number))
    number = held.number
    held.release()
    with socket.create_server(("127.0.0.2", number)):
        pass


# Breaks if the program of the next attempt can meet a process of the one before.
def test_each_attempt_has_another_port(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    offers = [first, second]
    monkeypatch.setattr(attempts, "_bound", lambda address: offers.pop(0))
    found = HeldPort("127.0.0.1", not_this=first.getsockname()[1])
    assert found.number == second.getsockname()[1]
    assert first.fileno() == -1
    found.release()
    assert second.fileno() == -1


@pytest.mark.parametrize("address", ["192.0.2.1", "a name", "::ffff:192.0.2.1"])
def test_an_address_of_another_pod_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="HOLDFAST_POD_IP"):
        HeldPort(address)


# Breaks if the launcher ends with a traceback, and without a verdict, because its pod's network is away for a moment.
def test_a_launcher_without_an_address_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    offers = [ValueError("cannot bind"), ValueError("cannot bind"), socket.create_server(("127.0.0.1", 0))]

    def bound(_: str) -> socket.socket:
        offer = offers.pop(0)
        if isinstance(offer, ValueError):
            raise offer
        return offer

    monkeypatch.setattr(attempts, "_bound", bound)
    member = Member(2, 0, "127.0.0.1", "u-1", Target("", "", "", None, None))
    launcher = attempts._Attempts([], {}, 1.0, member, None, starter=Starter(), timings=Timings(signal_look=0.001))
    held = launcher._hold_port()
    assert held is not None
    held.release()
    launcher._on_signal(15, None)
    assert launcher._hold_port() is None


class Prepares(Starter):
    """Notes what it is to prepare."""

    def __init__(self) -> None:
        self.wanted: list[tuple[list[str], Mapping[str, str]]] = []

    def prepare(self, imports: Sequence[str], environment: Mapping[str, str], over: threading.Event) -> None:
        self.wanted.append((list(imports), environment))


# Breaks if a module with an import of its own effects is imported, or if the process is of no use because it has
# another environment than the program.
def test_libraries_that_other_pods_have_told_are_imported_before_the_first_program() -> None:
    member = Member(2, 1, "127.0.0.1", "u-1", Target("", "", "", None, None))
    given = pod_variables({"PET_NPROC_PER_NODE": "1"}, imports=("torch", "my_module"))
    starter = Prepares()
    attempts._Attempts([], given, 1.0, member, None, starter=starter)._prepare()
    ((imports, environment),) = starter.wanted
    assert imports == ["torch"]
    assert environment.keys() == attempt_variables(given, member, MemberOrder("start", 7, "127.0.0.1", 9)).keys()
    attempts._Attempts([], {}, 1.0, member, None, starter=starter)._prepare()
    assert len(starter.wanted) == 1
