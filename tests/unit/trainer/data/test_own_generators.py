"""Generators that data sets and collate functions carry: found wherever they are, and seeded by a key."""

import functools
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from holdfast_train.data.own_generators import Repeatable, generators_in
from holdfast_train.errors import StateError


class Holder:
    """An object with any attributes."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    def draw(self) -> Any:
        return self.rng.random()  # type: ignore[attr-defined]


class Slots:
    __slots__ = ("empty", "rng")

    def __init__(self, rng: Any) -> None:
        self.rng = rng


class Transform(torch.nn.Module):
    def __init__(self, rng: Any) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Identity())
        self.inner.rng = rng


class Model(torch.nn.Module):
    def __init__(self, rng: Any) -> None:
        super().__init__()
        self.layer, self.rng = torch.nn.Linear(1, 1), rng


def closure(rng: Any) -> Callable[[], Any]:
    unset: Any
    if not rng:
        unset = 1
    return lambda: (rng.random(), unset)


def default(rng: Any) -> Callable[[], Any]:
    def draw(first: int = 1, *, own: Any = rng) -> Any:
        return own.random()

    return draw


PLACES: dict[str, Callable[[Any], Any]] = {
    "root.rng": lambda rng: Holder(rng=rng),
    "root.data.data.rng": lambda rng: Holder(data=Holder(data=Holder(rng=rng))),
    "root.dataset.rng": lambda rng: torch.utils.data.Subset(Holder(rng=rng), [0]),  # type: ignore[arg-type]
    "root.datasets[1].rng": lambda rng: Holder(datasets=[Holder(), Holder(rng=rng)]),
    "root['a'][1]": lambda rng: OrderedDict(a=(1, rng)),
    "root[0]": lambda rng: {object(): rng},  # the key has another text in each process
    "root.keywords['own']": lambda rng: functools.partial(print, own=rng),
    "root.self.rng": lambda rng: Holder(rng=rng).draw,
    "root.self": lambda rng: rng.random,  # a method that is not written in Python
    "root.rng.": closure,
    "root.kwdefaults['own']": default,
    "root.rng..": Slots,
    "root._modules['inner'].rng": Transform,
    "root[1500]": lambda rng: [*range(1500), rng],
    "root.later.rng": lambda rng: Holder(samples=[("a", 1)] * 200_000, later=Holder(rng=rng)),
}


# Breaks if a generator is not found: its numbers would begin again after a resume.
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rng", [random.Random(1), np.random.default_rng(1)], ids=["python", "numpy"])
def test_a_generator_is_found(place: str, rng: Any) -> None:
    found = generators_in(root=PLACES[place](rng))
    assert list(found) == [place.rstrip(".")]
    assert found[place.rstrip(".")] is rng


# Breaks if a search never ends, or looks at each value of the data.
def test_what_is_not_looked_into() -> None:
    circle = Holder(data=[*range(2000)])
    circle.me = circle  # type: ignore[attr-defined]
    assert generators_in(root=circle, model=Model(random.Random(1)), array=np.zeros(3, dtype=object)) == {}
    many = Holder(samples=[Holder(rng=random.Random(1)) for _ in range(1001)], rng=random.Random(2))
    assert list(generators_in(root=many)) == ["root.rng"]


MAKE: list[Callable[[], Any]] = [
    lambda: random.Random(1),
    lambda: np.random.default_rng(1),
    lambda: np.random.Generator(np.random.Philox(1)),
    lambda: np.random.RandomState(1),
    torch.Generator,
]


def draw(rng: Any) -> float:
    return torch.rand((), generator=rng).item() if isinstance(rng, torch.Generator) else float(rng.random())


# Breaks if numbers depend on anything but the key, or if the generators of the program are changed.
@pytest.mark.parametrize("make", MAKE)
def test_numbers_depend_on_the_key_alone(make: Callable[[], Any]) -> None:
    data, other = Holder(rngs=[make(), make()]), Holder(rngs=[make(), make()])
    before = draw(make())
    call = Repeatable(data=data).call
    first = call("1", lambda: [*map(draw, data.rngs), random.random(), torch.rand(()).item()])  # type: ignore[attr-defined]
    assert len(set(first)) == 4
    draw(other.rngs[0])  # type: ignore[attr-defined]
    again = Repeatable(data=other).call
    assert again("1", lambda: [*map(draw, other.rngs), random.random(), torch.rand(()).item()]) == first  # type: ignore[attr-defined]
    assert again("2", lambda: draw(other.rngs[0])) not in first  # type: ignore[attr-defined]
    assert draw(data.rngs[0]) == before  # type: ignore[attr-defined]


class Late:
    """Makes its generator when it is called first, as the collate functions of transformers do."""

    def __init__(self) -> None:
        self.rng: Any = None
        self.calls = 0

    def __call__(self) -> float:
        self.calls += 1
        if self.rng is None:
            self.rng = random.Random(7)
        return float(self.rng.random())


# Breaks if the first call after a resume gives other numbers than the same call in the middle of a training.
def test_a_generator_that_is_made_late_is_seeded_in_the_same_call() -> None:
    first, second = Late(), Late()
    whole = [Repeatable(root=first).call(key, first) for key in "12"]
    assert Repeatable(root=second).call("2", second) == whole[1]
    assert first.calls == 3  # a new Repeatable, as in a new worker, knows the generator from its beginning
    repeatable = Repeatable(root=second)
    assert [repeatable.call(key, second) for key in "12"] == whole


# Breaks if large data is searched for each batch, or if a generator that the program replaces is not noticed.
def test_large_objects_are_not_searched_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Late()
    late.samples = [Holder() for _ in range(200)]  # type: ignore[attr-defined]
    repeatable = Repeatable(data=late)
    first = repeatable.call("1", late)
    assert repeatable.call("2", late) != first
    monkeypatch.setattr("holdfast_train.data.own_generators._search", lambda _: pytest.fail("searched"))
    late.rng = random.Random(8)
    assert repeatable.call("1", late) == first


# Breaks if numbers that cannot come again are drawn without a word.
def test_a_generator_of_the_operating_system_is_refused() -> None:
    with pytest.raises(StateError, match=r"'data.rng' is a random.SystemRandom.*use a random.Random"):
        Repeatable(data=Holder(rng=random.SystemRandom()))
