"""The copy beside training: what may change waits, what changes all the same is noticed."""

import os
import threading
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from holdfast_train.format.tree import Walk
from holdfast_train.save.arena import Arena
from holdfast_train.save.capture import Capture, Guard
from holdfast_train.save.plan import Plan, plan


class Gate:
    """Holds copies of more than a few bytes until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        original = Arena.copy_from

        def copy_from(arena: Arena, offset: int, address: int, size: int) -> None:
            if size >= 4000 and threading.current_thread().name == "holdfast-capture":
                self.reached.set()
                assert self.open.wait(30)
            original(arena, offset, address, size)

        monkeypatch.setattr(Arena, "copy_from", copy_from)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate(monkeypatch)
    yield found
    found.open.set()


class Training:
    """A model that has taken a step, with a buffer that changes in each forward pass."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(40, 40), nn.BatchNorm1d(40))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.guard = Guard([self.model, self.optimizer])
        self.told: list[int | str] = []
        self.step()

    def step(self) -> None:
        self.model(torch.randn(8, 40)).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def capture(self) -> tuple[Capture, Arena, Plan]:
        walk = Walk()
        walk.tree({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, "")
        made = plan(walk.leaves, len(walk.leaves), 0, 1)
        arena = Arena(made.size)
        found = Capture(
            arena,
            made,
            walk.leaves,
            guarded=self.guard.storages(),
            copied=self.told.append,
            failed=self.told.append,
        )
        self.guard.hold(found)
        return found, arena, made

    def bytes(self) -> dict[str, bytes]:
        state = self.model.state_dict() | {
            f"{number}/{key}": value
            for number, values in self.optimizer.state_dict()["state"].items()
            for key, value in values.items()
        }
        return {name: value.detach().numpy().tobytes() for name, value in state.items()}


def held(arena: Arena, made: Plan) -> dict[str, bytes]:
    found = {}
    for entry in made.common:
        shard = entry.shards[0]
        name = entry.name.removeprefix("model/").removeprefix("optimizer/state/")
        found[name] = bytes(arena.view[shard.offset : shard.offset + shard.size])
    return found


def test_a_step_of_the_optimizer_waits_for_the_copy(gate: Gate) -> None:
    training = Training()
    before = training.bytes()
    capture, arena, made = training.capture()
    assert gate.reached.wait(30)
    step = threading.Thread(target=training.step)
    step.start()
    step.join(0.2)
    assert step.is_alive()
    gate.open.set()
    step.join(30)
    capture.wait()
    assert training.told == [made.size]
    assert held(arena, made) == before
    assert training.bytes() != before


def test_what_a_forward_pass_changes_is_copied_at_once(gate: Gate) -> None:
    training = Training()
    before = training.bytes()
    capture, arena, made = training.capture()
    training.model(torch.randn(8, 40))  # running means change
    gate.open.set()
    capture.wait()
    assert held(arena, made) == before
    assert training.bytes() != before


def test_a_parameter_that_something_else_changes_is_noticed(gate: Gate) -> None:
    training = Training()
    capture, _, _ = training.capture()
    assert gate.reached.wait(30)
    with torch.no_grad():
        training.model[0].weight.mul_(2)
    gate.open.set()
    capture.wait()
    (told,) = training.told
    assert "changed by something else" in str(told)


def test_an_arena_is_the_same_memory_for_whoever_has_its_descriptor() -> None:
    one = Arena(10_000)
    other = Arena(10_000, os.dup(one.descriptor))
    one.populate()
    one.view[9_000:9_003] = b"abc"
    assert bytes(other.view[9_000:9_003]) == b"abc"
    other.close_descriptor()
    one.close_descriptor()
    assert bytes(other.view[9_000:9_003]) == b"abc"
