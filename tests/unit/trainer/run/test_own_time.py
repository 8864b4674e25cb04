"""The time that a rank works in a step before it needs the others, with real models and a clock that tests set."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch

from holdfast_train.run import own_time
from holdfast_train.run.own_time import LEAST_STEPS, OwnTime, Typical


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def work(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(own_time, "perf_counter", lambda: found.now)
    return found


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))


def backward(model: torch.nn.Module) -> None:
    model(torch.ones(1, 2)).sum().backward()


def measured(
    step: Callable[[torch.nn.Module], object], model: torch.nn.Module | None = None, steps: int = LEAST_STEPS + 1
) -> Typical | None:
    """What is known after so many steps."""
    model, own = model or network(), OwnTime()
    own.watch([model, object()])
    for _ in range(steps):
        own.begin()
        own.begin()  # the end of the step before, and the body of a loop
        step(model)
    found = own.take()
    own.close()
    return found


def test_what_comes_before_the_first_gradient_counts(clock: Clock) -> None:
    """Breaks if the wait for other ranks, which comes later, is counted too."""

    def step(model: torch.nn.Module) -> None:
        clock.work(1)  # data
        backward(model)
        clock.work(2)  # the others

    assert measured(step) == pytest.approx((1, 3))


def test_of_several_backward_passes_the_first_one_counts(clock: Clock) -> None:
    """Breaks if accumulated gradients, of which the last ones are exchanged, make one rank look slow."""

    def step(model: torch.nn.Module) -> None:
        clock.work(1)
        backward(model)
        clock.work(4)
        backward(model)

    assert measured(step) == pytest.approx((1, 5))


def test_what_is_done_between_two_steps_does_not_count(clock: Clock) -> None:
    """Breaks if a save, which only some ranks upload, makes them look slow."""
    own, model = OwnTime(), network()
    own.watch([model])
    for _ in range(LEAST_STEPS + 1):
        own.begin()
        clock.work(7)  # a save
        own.begin()
        clock.work(1)
        backward(model)
    found = own.take()
    assert found is not None
    assert found.own == pytest.approx(1)


def test_few_steps_say_nothing(clock: Clock) -> None:
    assert measured(backward, steps=LEAST_STEPS - 1) is None


def test_a_program_without_gradients_is_not_measured(clock: Clock) -> None:
    assert measured(lambda model: model(torch.ones(1, 2))) is None


def test_no_model_costs_nothing() -> None:
    own = OwnTime()
    own.watch([torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)])
    own.begin()
    assert own.take() is None


def test_a_copy_of_the_model_is_left_alone(clock: Clock) -> None:
    """Breaks if an average of the weights, which programs make by a copy, measures too, or cannot be made."""
    model, own = network(), OwnTime()
    own.watch([model])
    copied = copy.deepcopy(model)
    for _ in range(LEAST_STEPS + 1):
        own.begin()
        backward(copied)
    assert own.take() is None


@pytest.mark.filterwarnings("ignore")  # of torch, about DTensors outside a training
def test_a_sharded_model_is_measured_until_its_forward_pass(clock: Clock) -> None:
    """Breaks if the wait for the parameters of other ranks counts as work of this one."""
    from torch.distributed.fsdp import fully_shard

    def step(model: torch.nn.Module) -> None:
        clock.work(1)
        loss = model(torch.ones(1, 2)).sum()
        clock.work(2)
        loss.backward()

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        model = network()
        fully_shard(model, mesh=torch.distributed.init_device_mesh("cpu", (1,)))
        assert measured(step, model) == pytest.approx((1, 3))
        own = OwnTime()
        own.watch([model])
        own.begin()
        (hook,) = [one for one in model._forward_pre_hooks.values() if type(one).__module__ == own_time.__name__]
        pickle.loads(pickle.dumps(hook))()
        assert own._is_open, "a model that was loaded measures nothing"
        own.close()
    finally:
        torch.distributed.destroy_process_group()
