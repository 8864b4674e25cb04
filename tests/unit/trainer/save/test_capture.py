"""The copy during training: steps of the optimizer wait for it, and any other change is detected."""

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn

from holdfast_train.format.tree import Walk
from holdfast_train.save.arena import Arena
from holdfast_train.save.capture import Capture, Guard
from holdfast_train.save.plan import Copy, Plan, make_plan


class Gate:
    """Delays copies of more than a few bytes until `open` is set."""

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
        self.reported: list[int | str] = []
        self.step()

    def step(self) -> None:
        self.model(torch.randn(8, 40)).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def capture(self, on_copied: Callable[[int], None] | None = None) -> tuple[Capture, Arena, Plan]:
        walk = Walk()
        walk.tree({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, "")
        plan = make_plan(walk.leaves, len(walk.leaves), 0, 1)
        arena = Arena(plan.size)
        found = Capture(
            arena,
            plan,
            walk.leaves,
            guarded=self.guard.storages(),
            on_copied=on_copied or self.reported.append,
            on_failed=self.reported.append,
            is_last_call_long=on_copied is not None,
        )
        self.guard.delay_steps(found)
        return found, arena, plan

    def bytes(self) -> dict[str, bytes]:
        state = self.model.state_dict() | {
            f"{number}/{key}": value
            for number, values in self.optimizer.state_dict()["state"].items()
            for key, value in values.items()
        }
        return {name: value.detach().numpy().tobytes() for name, value in state.items()}


def saved_bytes(arena: Arena, plan: Plan) -> dict[str, bytes]:
    found = {}
    for entry in plan.common:
        shard = entry.shards[0]
        name = entry.name.removeprefix("model/").removeprefix("optimizer/state/")
        found[name] = bytes(arena.view[shard.offset : shard.offset + shard.size])
    return found


def test_a_step_of_the_optimizer_waits_for_the_copy(gate: Gate) -> None:
    training = Training()
    before = training.bytes()
    capture, arena, plan = training.capture()
    assert gate.reached.wait(30)
    step = threading.Thread(target=training.step)
    step.start()
    step.join(0.2)
    assert step.is_alive()
    gate.open.set()
    step.join(30)
    capture.wait()
    assert training.reported == [plan.size]
    assert saved_bytes(arena, plan) == before
    assert training.bytes() != before


@pytest.mark.parametrize("overlap", [True, False])
def test_a_step_does_not_wait_for_a_long_last_call(overlap: bool) -> None:
    """Breaks if the next step of the optimizer waits for checksums of frozen parameters."""
    called, go_on = threading.Event(), threading.Event()

    def last(size: int) -> None:
        called.set()
        assert go_on.wait(30)

    training = Training()
    if not overlap:
        training.guard.storages = frozenset  # type: ignore[method-assign, assignment]
    capture, _, _ = training.capture(last)
    assert called.wait(30)
    training.step()
    go_on.set()
    capture.wait()
    assert training.reported == []


def test_buffers_that_a_forward_pass_changes_are_copied_at_once(gate: Gate) -> None:
    training = Training()
    before = training.bytes()
    capture, arena, plan = training.capture()
    training.model(torch.randn(8, 40))  # running means change
    gate.open.set()
    capture.wait()
    assert saved_bytes(arena, plan) == before
    assert training.bytes() != before


def test_a_change_by_other_code_is_detected(gate: Gate) -> None:
    training = Training()
    capture, _, _ = training.capture()
    assert gate.reached.wait(30)
    with torch.no_grad():
        training.model[0].weight.mul_(2)
    gate.open.set()
    capture.wait()
    (reported,) = training.reported
    assert "code other than the optimizer changed a parameter" in str(reported)


@pytest.mark.parametrize("is_undone", [False, True])
@pytest.mark.parametrize("how", ["data", "numpy"])
def test_a_change_past_the_version_counters_is_detected(gate: Gate, how: str, is_undone: bool) -> None:
    """Breaks if a checkpoint has weights of two moments: adversarial training changes them by `.data`, and back."""
    training = Training()
    capture, _, _ = training.capture()
    assert gate.reached.wait(30)
    weights = training.model[0].weight
    before = weights.detach().clone()
    changed: Callable[[torch.Tensor], object] = (
        weights.data.copy_ if how == "data" else lambda values: np.copyto(weights.detach().numpy(), values.numpy())
    )
    changed(before + 1)
    if is_undone:  # when it is copied, which is before the next step of the optimizer
        original = Arena.copy_from

        def copy_from(arena: Arena, offset: int, address: int, size: int) -> None:
            original(arena, offset, address, size)
            changed(before)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Arena, "copy_from", copy_from)
            gate.open.set()
            capture.wait()
    else:
        gate.open.set()
        capture.wait()
    assert isinstance(training.reported[-1], str)


class Accelerated(torch.optim.Optimizer):
    """As accelerate's AcceleratedOptimizer: an Optimizer that never calls Optimizer.__init__, around another one."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    param_groups = property(lambda self: self.optimizer.param_groups)  # type: ignore[assignment]
    state = property(lambda self: self.optimizer.state)  # type: ignore[assignment]

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        self.optimizer.step()


@pytest.mark.parametrize("wrappers", [1, 2])
def test_a_step_through_a_wrapper_of_another_library_waits_for_the_copy(gate: Gate, wrappers: int) -> None:
    training = Training()
    training.guard.close()
    wrapped: torch.optim.Optimizer = training.optimizer
    for _ in range(wrappers):
        wrapped = Accelerated(wrapped)
    training.guard = Guard([training.model, wrapped])
    capture, *_ = training.capture()
    assert gate.reached.wait(30)
    stepping = threading.Thread(target=wrapped.step)
    stepping.start()
    assert stepping.is_alive()
    gate.open.set()
    stepping.join(30)
    capture.wait()
    assert isinstance(training.reported[-1], int)


def test_an_optimizer_without_hooks_guards_nothing() -> None:
    """Its state is copied before a save returns."""

    class Own(torch.optim.Optimizer):
        def __init__(self) -> None:
            self.param_groups = [{"params": [torch.zeros(3)]}]

    guard = Guard([Own()])
    assert guard.storages() == frozenset()
    guard.close()


class Devices:
    """GPUs, as a capture sees them, without a GPU: all state is in the host's memory."""

    def __init__(self) -> None:
        self.is_capturing_graph = False
        self.training_waits = 0

    def begin(
        self, now: list[Copy], later: list[Copy], copy_one: Callable[[Copy], None], *, is_on_gpu: Callable[[Copy], bool]
    ) -> None:
        for copy in [*now, *filter(is_on_gpu, later)]:
            copy_one(copy)

    def make_training_wait(self) -> None:
        self.training_waits += 1

    def wait_for(self, copy: Copy | None) -> None:
        pass

    def settle(self) -> None:
        pass

    def seconds_waited(self) -> float:
        return 7.0


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Devices:
    found = Devices()
    monkeypatch.setattr("holdfast_train.save.capture._Devices.of", lambda leaves: found)
    return found


def test_state_on_the_host_is_copied_during_training_beside_a_gpu(gate: Gate, devices: Devices) -> None:
    """Breaks if one tensor on a GPU makes training wait for the copy of all that is on the host (offloaded)."""
    training = Training()
    before = training.bytes()
    capture, arena, plan = training.capture()
    assert gate.reached.wait(30)  # by the thread: the call has returned
    step = threading.Thread(target=training.step)
    step.start()
    step.join(0.2)
    assert step.is_alive()
    gate.open.set()
    step.join(30)
    capture.wait()
    assert (training.reported, devices.training_waits) == ([plan.size], 1)
    assert saved_bytes(arena, plan) == before


def test_waits_of_gpus_are_part_of_what_a_save_costs(devices: Devices) -> None:
    training = Training()
    capture, _, _ = training.capture()
    training.step()
    capture.wait()
    assert capture.waited >= 7.0


def test_what_is_copied_at_once_is_not_kept_in_memory() -> None:
    """Breaks if columns of a large buffer stay in memory until the next save."""
    walk = Walk()
    walk.tree({"x": torch.ones(3), "y": b"y" * 5000, "z": np.ones(3)}, "")
    plan = make_plan(walk.leaves, 3, 0, 1)
    capture = Capture(
        Arena(plan.size), plan, walk.leaves, guarded=frozenset(), on_copied=lambda _: None, on_failed=lambda _: None
    )
    assert [leaf.name for leaf in capture._leaves if leaf.value is not None] == ["x"]


def test_a_step_that_is_captured_in_a_graph_waits_for_nothing(devices: Devices) -> None:
    """The step of the graph changes nothing yet. The next real one waits for the copy."""
    training = Training()
    capture, _, _ = training.capture()
    devices.is_capturing_graph = True
    assert not capture.before_change()
    training.step()
    assert devices.training_waits == 0
    devices.is_capturing_graph = False
    training.step()
    assert devices.training_waits == 1
    capture.wait()


def test_a_step_during_the_last_look_for_changes_is_not_taken_for_one(
    devices: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if a step is allowed between the question whether steps are allowed and the count of changes."""
    counting, stepped, original = threading.Event(), threading.Event(), Capture._count_changes

    def count(capture: Capture) -> list[int]:
        if threading.current_thread().name == "holdfast-capture":
            counting.set()
            stepped.wait(0.5)  # a step that is let through comes first
        return original(capture)

    monkeypatch.setattr(Capture, "_count_changes", count)
    training = Training()
    capture, _, plan = training.capture()
    assert counting.wait(30)
    training.step()
    stepped.set()
    capture.wait()
    assert training.reported == [plan.size]
