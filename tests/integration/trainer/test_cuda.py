"""Saves and reports beside a real GPU. Skipped without one."""

import threading
from pathlib import Path

import pytest
import torch
from tests.support.trainer.runs import settle
from tests.support.trainer.stores import environment

from holdfast_train import Run, load
from holdfast_train.format.tree import Walk
from holdfast_train.pod.reporter import _number
from holdfast_train.run.own_time import LEAST_STEPS, OwnTime
from holdfast_train.save.arena import Arena
from holdfast_train.save.capture import Capture, Guard
from holdfast_train.save.frozen import Fingerprint
from holdfast_train.save.plan import make_plan

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
SIZE = 4096


class Mixed:
    """A model on the GPU, and an average of its weights on the host, which an optimizer owns too."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Linear(SIZE, SIZE, bias=False, device="cuda")
        self.mean = torch.nn.Parameter(torch.zeros(SIZE, SIZE))
        self.optimizer = torch.optim.SGD([*self.model.parameters(), self.mean], lr=0.1)

    def step(self) -> None:
        self.model(torch.ones(8, SIZE, device="cuda")).square().mean().backward()
        self.mean.grad = torch.ones_like(self.mean)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"weight": self.model.weight, "mean": self.mean}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            self.model.weight.copy_(state["weight"])
            self.mean.copy_(state["mean"])


def captured(mixed: Mixed, guard: Guard) -> tuple[Capture, list[int | str], int]:
    """A capture that has begun, what it reports, and the size of its state."""
    walk = Walk()
    walk.tree(mixed.state_dict(), "")
    plan = make_plan(walk.leaves, len(walk.leaves), 0, 1)
    arena = Arena(plan.size)
    arena.pin()
    reported: list[int | str] = []
    found = Capture(
        arena, plan, walk.leaves, guarded=guard.storages(), on_copied=reported.append, on_failed=reported.append
    )
    guard.delay_steps(found)
    return found, reported, plan.size


def test_state_on_gpu_and_host_is_saved_as_it_was(tmp_path: Path) -> None:
    mixed = Mixed()
    with Run(mixed=mixed, optimizer=mixed.optimizer, environment=environment(f"file://{tmp_path}/prefix")) as run:
        for step in run.steps(6):
            mixed.step()
            if step == 2:
                run._saving.requested = True
            if step == 3:
                settle(run)
                found = load(f"{tmp_path}/prefix")["mixed"]
            if step == 2:
                torch.cuda.synchronize()
                expected = {name: value.detach().cpu().clone() for name, value in mixed.state_dict().items()}
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_the_wait_of_the_gpu_is_counted() -> None:
    mixed = Mixed()
    guard = Guard([mixed.optimizer])
    mixed.step()
    torch.cuda.synchronize()
    capture, reported, size = captured(mixed, guard)
    mixed.step()
    capture.wait()
    torch.cuda.synchronize()
    assert capture.waited > 0.0
    assert reported[-1] == size
    guard.close()


def test_checksums_of_frozen_bytes_are_of_the_moment_of_the_save() -> None:
    """Breaks if training, which goes on, changes what a GPU has still to add up."""
    weight = torch.ones(64 << 20, device="cuda")
    pieces = [(weight, 0, weight.nbytes, 0)]
    at_save = Fingerprint(pieces)
    weight.add_(1.0)
    changed = Fingerprint(pieces)
    weight.sub_(1.0)
    again = Fingerprint(pieces)
    assert at_save.result() == again.result() != changed.result()


def test_a_report_does_not_break_the_capture_of_a_graph() -> None:
    loss = torch.ones((), device="cuda")
    capturing, over, read = threading.Event(), threading.Event(), list[str | None]()

    def report() -> None:
        assert capturing.wait(30)
        read.extend(_number(loss) for _ in range(20))
        over.set()

    thread = threading.Thread(target=report)
    thread.start()
    x = torch.ones(SIZE, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
        capturing.set()
        assert over.wait(30)
        y = y + 1
    thread.join()
    graph.replay()
    torch.cuda.synchronize()
    assert (read, y.sum().item()) == (["1"] * 20, 3.0 * SIZE)


def test_a_step_that_is_captured_during_a_save_breaks_neither() -> None:
    mixed = Mixed()
    optimizer = torch.optim.AdamW(mixed.model.parameters(), capturable=True)
    guard = Guard([optimizer])
    for _ in range(3):
        mixed.model(torch.ones(8, SIZE, device="cuda")).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    capture, reported, size = captured(mixed, guard)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    capture.wait()
    assert reported[-1] == size
    optimizer.step()
    torch.cuda.synchronize()
    guard.close()


def test_the_own_time_of_a_rank_is_that_of_its_gpu() -> None:
    """Breaks if a rank whose GPU is slow looks as fast as the host that gives it work."""
    model, own = torch.nn.Linear(SIZE, SIZE, device="cuda"), OwnTime()
    own.watch([model])
    for _ in range(2 * LEAST_STEPS):
        own.begin()
        torch.cuda._sleep(20_000_000)  # cycles of the GPU: some milliseconds, for which the host does not wait
        model(torch.ones(8, SIZE, device="cuda")).square().mean().backward()
    torch.cuda.synchronize()
    own.begin()
    found = own.take()
    own.close()
    assert found is not None
    assert found.own > 0.002
