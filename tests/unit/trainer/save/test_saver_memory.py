"""A save copies the state of all ranks of a pod at the same time: the pod needs memory for all copies."""

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.trainer.save.test_saver import Gate, Training

from holdfast_train.save import memory
from holdfast_train.save.saver import Saver


class Room:
    """So much memory is left; a save of a rank takes 0.4 MB."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
        monkeypatch.setattr(memory, "_machine", lambda: free)
        monkeypatch.setattr(memory, "_groups", lambda: iter(()))


@pytest.mark.parametrize(("ranks", "short"), [(1, False), (8, True)])
def test_memory_is_needed_for_the_copies_of_all_ranks_of_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, short: bool
) -> None:
    """Breaks if each rank finds room for its own copy, and all together get the pod killed."""
    Room(monkeypatch, (1 << 30) + 1_000_000)
    training = Training(tmp_path)
    training.saver._copies = ranks
    training.saver.prepare()
    assert bool(training.saver.shortage) is short
    assert training.saver.can_begin, "the first copy is made in any case"
    with contextlib.ExitStack() as stack:
        stack.callback(training.saver.close)
        gate = Gate(monkeypatch)
        training.begin(1)
        assert training.saver.can_begin is not short, "a second copy only if all ranks have room"
        gate.open.set()
        assert training.saver.wait(lambda: 30)


def test_the_ranks_of_a_pod_share_its_memory(tmp_path: Path) -> None:
    training = Training(tmp_path)
    opened = replace(training.saver._open, ranks=16, environment=replace(training.saver._open.environment, nodes=2))
    other = Saver(opened, training.saver._state, lambda *_: None)
    assert (training.saver._copies, other._copies) == (1, 8)
    other.close()
    training.saver.close()
