"""Which losses are far above those before them: a wrong answer costs a healthy training, or lets it be spoiled."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_protocol.settings import Spike
from holdfast_train.run.spike import SpikeRule

SPIKE = Spike(deviations=10, steps=5, window=50)


def falling(steps: int, seed: int = 1) -> list[float]:
    """Losses as of a training: they fall, and scatter by 5%."""
    noise = random.Random(seed)
    return [(1 + 3 * math.exp(-step / 100)) * noise.gauss(1, 0.05) for step in range(steps)]


def found(losses: list[float], spike: Spike = SPIKE) -> int | None:
    """The number of losses after which the rule says that there is a spike."""
    rule = SpikeRule(spike)
    return next((count for count, loss in enumerate(losses, 1) if rule.take(loss)), None)


GOOD = falling(400)
TABLE = [
    ("a training", GOOD, None),
    ("a loss that explodes and stays", [*GOOD, *[5.0] * 10], 405),
    ("a loss that climbs", [*GOOD, *[1.06**step for step in range(60)]], 413),
    ("too few in a row", [*GOOD, *[9.0] * 4, 1.0, *[9.0] * 4], None),
    ("too few losses before", [*GOOD[:49], *[9.0] * 5], None),
    ("the window is just full", [*GOOD[:50], *[9.0] * 5], 55),
    ("wild losses do not move the window", [*GOOD, *([50.0, 50.0, 1.0] * 30), *[9.0] * 5], 495),
    ("losses that do not differ", [*[2.0] * 100, *[2.1] * 10], None),
    ("losses that did not differ", [*[2.0] * 100, *[2.3] * 10], 105),
    ("losses below 0", [*[-2.0] * 100, *[-1.7] * 10], 105),
    ("losses of 0 say nothing of other losses", [*[0.0] * 100, *[1e-3] * 20], None),
    ("a margin loss, 0 for most batches", [*[0.0, 0.02, 0.0] * 40, *[0.02] * 20], None),
    ("a margin loss that explodes", [*[0.0, 0.02, 0.0] * 40, *[5.0] * 10], 125),
    ("numbers that are as large as can be", [*[0.0, 1e308, 0.0, -1e308, 0.0] * 40, *[1e308] * 20], None),
    ("a loss that falls at once", [*[2.0] * 100, *[0.1] * 100], None),
]


@pytest.mark.parametrize(("losses", "expected"), [one[1:] for one in TABLE], ids=[one[0] for one in TABLE])
def test_what_a_spike_is(losses: list[float], expected: int | None) -> None:
    assert found(losses) == expected


@given(st.floats(1e-6, 1e6), st.integers(0, 50))
def test_the_unit_of_the_loss_does_not_matter(scale: float, seed: int) -> None:
    losses = [*falling(150, seed), *[8.0] * 8]
    assert found([scale * loss for loss in losses]) == found(losses) == 155
