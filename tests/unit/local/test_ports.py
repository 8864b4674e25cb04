"""Ports are free, different from each other, and a port in use is refused with the name of its user."""

import os
import socket

import pytest

from holdfast.local.errors import PortTakenError
from holdfast.local.ports import HOST, free


def test_ports_are_different_and_can_be_bound() -> None:
    ports = free([f"p{number}" for number in range(50)])
    assert len(set(ports.values())) == 50
    for port in ports.values():
        with socket.socket() as listener:
            listener.bind((HOST, port))


def test_a_fixed_port_is_kept_and_never_given_to_another_name() -> None:
    wanted = free(["a"])["a"]
    ports = free(["x", "y", "a"], {"a": wanted})
    assert ports["a"] == wanted
    assert len(set(ports.values())) == 3


def test_a_port_in_use_is_refused_and_its_user_named() -> None:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} for s3 cannot be used .* process {os.getpid()}"):
            free(["s3"], {"s3": port})
