"""Random number generators: the global ones of a process, and the program's own."""

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.trainer.stores import packed, unpacked

from holdfast_train.data import rng
from holdfast_train.errors import StateError


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.random()), float(torch.rand(()))


def through_a_checkpoint(value: Any) -> Any:
    tree, tensors, data = packed(value)
    return unpacked(json.loads(json.dumps(tree)), tensors, data)


def test_every_generator_comes_back() -> None:
    random.gauss(0, 1)  # it keeps a second number for the next call
    np.random.normal()
    state = through_a_checkpoint(rng.capture())
    wanted = [(*draws(), random.gauss(0, 1), float(np.random.normal())) for _ in range(3)]
    rng.seed_host("other")
    rng.restore(state)
    assert [(*draws(), random.gauss(0, 1), float(np.random.normal())) for _ in range(3)] == wanted


def test_one_key_seeds_all_generators_differently() -> None:
    found = []
    for key in ("0/0", "0/1", "1/0", "0/0"):
        rng.seed_host(key)
        found.append(draws())
    assert found[0] == found[3]
    assert len({number for numbers in found[:3] for number in numbers}) == 9


class Cuda:
    """Replaces torch.cuda: any number of devices, whose generators have a number as state."""

    def __init__(self, current: int, states: list[int]) -> None:
        self.current, self.states = current, [torch.tensor([state]) for state in states]

    def is_available(self) -> bool:
        return True

    is_initialized = is_available

    def device_count(self) -> int:
        return len(self.states)

    def current_device(self) -> int:
        return self.current

    def get_rng_state(self, device: int) -> torch.Tensor:
        return self.states[device]

    def set_rng_state(self, state: torch.Tensor, device: int) -> None:
        self.states[device] = state


@pytest.mark.parametrize(
    ("current", "devices", "wanted"),
    [
        (0, 3, [30, 10, 20]),  # the rank's own device is first
        (2, 3, [10, 20, 30]),
        (1, 2, [10, 30]),
        (0, 1, [30]),
        (1, 5, [0, 30, 10, 20, 0]),
    ],
)
def test_all_devices_of_a_rank(monkeypatch: pytest.MonkeyPatch, current: int, devices: int, wanted: list[int]) -> None:
    """The state of the current device goes to the current device, which may have another number."""
    monkeypatch.setattr(torch, "cuda", Cuda(2, [10, 20, 30]))
    state = through_a_checkpoint(rng.capture())
    elsewhere = Cuda(current, [0] * devices)
    monkeypatch.setattr(torch, "cuda", elsewhere)
    rng.restore(state)
    assert [int(found) for found in elsewhere.states] == wanted


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_real_devices() -> None:
    torch.rand((), device="cuda")
    state = through_a_checkpoint(rng.capture())
    assert len(state["cuda"]) == torch.cuda.device_count()
    wanted = torch.rand(4, device="cuda")
    torch.rand(4, device="cuda")
    rng.restore(state)
    assert torch.equal(torch.rand(4, device="cuda"), wanted)


GENERATORS: list[tuple[Callable[[], Any], Callable[[Any], float]]] = [
    (lambda: random.Random(1), lambda generator: float(generator.gauss(0, 1))),
    (lambda: np.random.default_rng(1), lambda generator: float(generator.normal())),
    (lambda: np.random.Generator(np.random.MT19937(1)), lambda generator: float(generator.normal())),
    (lambda: np.random.Generator(np.random.Philox(1)), lambda generator: float(generator.integers(9, dtype="u1"))),
    (lambda: np.random.RandomState(1), lambda generator: float(generator.normal())),
    (lambda: torch.Generator().manual_seed(1), lambda generator: float(torch.randn((), generator=generator))),
]


@pytest.mark.parametrize(("make", "draw"), GENERATORS)
def test_generators_of_the_program(make: Callable[[], Any], draw: Callable[[Any], float]) -> None:
    first, second = make(), make()
    for _ in range(5):
        draw(first)
    state = through_a_checkpoint(rng.Generators(mine=first).state_dict())
    wanted = [draw(first) for _ in range(5)]
    rng.Generators(mine=second).load_state_dict(state)
    assert [draw(second) for _ in range(5)] == wanted


def test_wrong_generators() -> None:
    with pytest.raises(StateError, match="'mine' is a int; allowed: "):
        rng.Generators(mine=7)
    with pytest.raises(StateError, match="has no generator 'mine', only 'other'"):
        rng.Generators(mine=random.Random(1)).load_state_dict({"other": None})
