"""Which losses that are not finite make a fault, and how many steps before it were clean."""

import time
from dataclasses import astuple
from typing import Any

import pytest
import torch

from holdfast_protocol.settings import Spike
from holdfast_train.run.finite import IN_WINDOW, READ_EVERY, WINDOW, Fault, FiniteGuard, _Ring

NAN, INF = float("nan"), float("inf")


def watched(losses: dict[int, Any], start: int = 0, upto: int | None = None, device: str = "cpu") -> FiniteGuard:
    """A guard after steps with the loss 1.0, except these `losses`."""
    guard = FiniteGuard()
    guard.start(start, is_on=True)
    for step in range(start + 1, (upto or max(losses)) + 1):
        guard.note(step, {"loss": torch.tensor(losses.get(step, 1.0), device=device), "grad_norm": 2.5})
    return guard


def test_three_in_a_row_are_a_fault() -> None:
    assert watched({5: NAN, 6: NAN}, upto=7).fault is None
    found = watched({2: NAN, 5: NAN, 6: INF, 7: NAN}).fault
    assert found == Fault(
        5,
        7,
        4,
        2,
        "the loss was not finite, 3 in a row: step 2 (nan, gradient norm 2.5); step 5 (nan, gradient norm 2.5); "
        "step 6 (inf, gradient norm 2.5); step 7 (nan, gradient norm 2.5)",
    )


def test_ten_of_a_thousand_are_a_fault() -> None:
    """Breaks if steps that are longer ago than the window still count."""
    every = WINDOW // IN_WINDOW
    assert watched({every * n: NAN for n in range(1, 4 * IN_WINDOW)}).fault is not None
    assert watched({(every + 12) * n: NAN for n in range(1, 4 * IN_WINDOW)}).fault is None


# Breaks if reports far apart count as none in a row, or if a step between two of them counts as good.
@pytest.mark.parametrize("every", [1, 100, 400, 5000])
def test_a_program_may_report_few_of_its_losses(every: int) -> None:
    guard = FiniteGuard()
    guard.start(0, is_on=True)
    for step in range(every, 10 * every, every):
        guard.note(step, {"loss": NAN if step > 5 * every else 1.0})
        if step == 5 * every:
            assert guard.clean(step + every - 1) == (step, every - 1)
    assert guard.fault is not None
    assert astuple(guard.fault)[:4] == (6 * every, 8 * every, 5 * every, 5 * every)


def test_steps_from_the_first_high_loss_on_are_not_known_to_be_good() -> None:
    """Breaks if a checkpoint inside a spike becomes healthy: a rollback would go to it."""
    guard = FiniteGuard()
    guard.start(0, is_on=True, spike=Spike(deviations=10, steps=5, window=20))
    for step in range(100, 2500, 100):
        guard.note(step, {"loss": 9.0 if step > 2200 else 1.0 + step % 300 / 1e4})
    assert guard.clean(2450) == (2200, 250)
    guard.note(2500, {"loss": 1.0})
    assert guard.clean(2500) == (2500, 0)


def test_losses_that_explode_are_a_fault() -> None:
    """Breaks if a rollback goes to a checkpoint inside the spike, or if single wild losses make one."""
    guard = FiniteGuard()
    guard.start(100, is_on=True, spike=Spike(deviations=10, steps=3, window=20))
    wild = {130: NAN, 140: 9.0, 150: 9.0, 151: 8.0, 152: 7.0}
    for step in range(101, 160):
        guard.note(step, {"loss": wild.get(step, 1.0 + step % 2 / 10), "grad_norm": 2.5})
    assert guard.fault is not None
    assert (guard.fault.first, guard.fault.last, guard.fault.good, guard.fault.clean) == (150, 152, 149, 19)
    assert guard.fault.words.startswith("the loss exploded, 3 in a row above ")
    assert "step 150 (9, gradient norm 2.5); step 151 (8, gradient norm 2.5)" in guard.fault.words
    assert "140" not in guard.fault.words


def test_clean_steps() -> None:
    assert FiniteGuard().clean(0) is None
    assert watched({}, start=40, upto=60).clean(60) == (20, 0)
    assert watched({45: NAN}, start=40, upto=60).clean(60) == (15, 0)


def test_a_guard_that_is_off_reads_nothing() -> None:
    guard = FiniteGuard()
    guard.start(0, is_on=False)
    assert not any(guard.note(step, {"loss": NAN}) for step in range(1, 9))
    assert guard.clean(8) is None


def test_a_step_costs_little() -> None:
    """Breaks if a step costs more than 0.05 ms of processor time, which other processes do not take away."""
    guard, losses = FiniteGuard(), {"loss": torch.tensor(1.0)}
    guard.start(0, is_on=True, spike=Spike(deviations=10, steps=10, window=200))
    begun = time.thread_time()
    for step in range(1, 2001):
        guard.note(step, losses)
    assert (time.thread_time() - begun) / 2000 < 5e-5


class _Behind:
    """torch, as far as a ring needs it, with a GPU that does nothing until it is waited for."""

    float32, zeros = torch.float32, staticmethod(torch.zeros)

    def __init__(self) -> None:
        self.cuda, self.waits = self, 0

    def empty(self, size: int, *, dtype: torch.dtype, pin_memory: bool) -> torch.Tensor:
        assert pin_memory
        return torch.empty(size, dtype=dtype)

    def Event(self) -> "_Behind":  # noqa: N802 - the name that torch has
        return self

    def current_stream(self, _device: object) -> None:
        return

    def record(self, _stream: object) -> None:
        return

    def query(self) -> bool:
        return False

    def synchronize(self) -> None:
        self.waits += 1


def test_only_the_older_losses_of_a_gpu_that_is_behind_are_waited_for() -> None:
    """Breaks if training waits at each step, or for the newest step, or if a loss is left out or read twice."""
    gpu = _Behind()
    ring = _Ring("cpu", gpu)
    read = []
    for step in range(1, 6 * READ_EVERY + 1):
        found = ring.read()
        assert not found or found[-1][0] == step - READ_EVERY
        read += found
        ring.add(step, torch.tensor(float(step)))
    assert gpu.waits == 5
    read += ring.read_all()
    assert read == [(step, float(step)) for step in range(1, 6 * READ_EVERY + 1)]
    assert ring.read_all() == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_losses_on_a_gpu_are_read_later() -> None:
    """Breaks if a loss that the program overwrites in place is read with its later value, or if one is left out."""
    guard, loss = FiniteGuard(), torch.zeros((), device="cuda")
    guard.start(0, is_on=True)
    for step in range(1, 6 * READ_EVERY):
        loss.fill_(NAN if step in (9, 10, 11) else 1.0)
        guard.note(step, {"loss": loss})
    torch.cuda.synchronize()
    assert guard.clean(6 * READ_EVERY) is not None or guard.fault is not None
    assert guard.fault is not None
    assert (guard.fault.first, guard.fault.last, guard.fault.clean) == (9, 11, 8)
