"""Messages and file descriptors between two processes."""

import os
import socket

import pytest

from holdfast_train.save.channel import Channel, ClosedError


def pair() -> tuple[Channel, Channel]:
    one, other = socket.socketpair()
    return Channel(one), Channel(other)


def test_an_object_and_an_open_file() -> None:
    one, other = pair()
    read, write = os.pipe()
    one.send({"step": 1}, [write])
    message, (descriptor,) = other.receive()
    assert message == {"step": 1}
    os.write(descriptor, b"x")
    assert os.read(read, 1) == b"x"
    for number in (read, write, descriptor):
        os.close(number)
    one.close()
    other.close()


def test_what_was_sent_arrives_before_the_end() -> None:
    one, other = pair()
    one.send("last")
    one.finish()
    assert other.receive() == ("last", [])
    with pytest.raises(ClosedError):
        other.receive()
    one.close()
    with pytest.raises(ClosedError):
        other.send("nobody reads this")
    other.close()
