"""A run that was killed and resumed equals an uninterrupted one bit for bit; with another number of ranks, it trains
the same samples."""

from pathlib import Path

import pytest
from tests.support.trainer.exact import SAVE_EVERY, Setup, Trial

STEPS, KILLED = 50, 23
LAST = 35  # after a save of the second attempt, and some steps more
PAIRWISE = [Setup(1, "fp32", 1), Setup(1, "bf16", 2), Setup(2, "fp32", 2), Setup(2, "bf16", 1)]  # every two values meet
SETUPS = [
    *PAIRWISE,
    *(
        pytest.param(setup, marks=pytest.mark.thorough)
        for setup in map(Setup, (1, 1, 2, 2), ("fp32", "bf16", "fp32", "bf16"), (2, 1, 1, 2))
    ),
    pytest.param(Setup(2, "fp32", 1, sharded=True), marks=pytest.mark.thorough),
    Setup(2, "bf16", 2, sharded=True),
]


@pytest.mark.training
@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_resume_is_bitwise(tmp_path: Path, setup: Setup) -> None:
    whole = Trial(tmp_path / "whole").run(setup, to=LAST)
    trial = Trial(tmp_path / "killed")
    first = trial.run(setup, to=LAST, kill_after=KILLED)
    second = trial.run(setup, to=LAST)
    assert first == whole[: KILLED + 1]
    assert [step.step for step in second] == list(range(KILLED // SAVE_EVERY * SAVE_EVERY, LAST))
    assert second == whole[KILLED // SAVE_EVERY * SAVE_EVERY :]
    # The comparison is meaningful: every step changes every compared part.
    for part in ("bits", "losses", "random", "samples"):
        assert len({getattr(step, part) for step in whole}) == LAST


@pytest.mark.training
def test_other_numbers_of_ranks_see_the_same_samples(tmp_path: Path) -> None:
    """2 -> 1 -> 3 processes, each killed in the middle of a step, equal one uninterrupted process."""
    whole = Trial(tmp_path / "whole").run(Setup(), to=STEPS)
    trial = Trial(tmp_path / "moved")
    parts = [
        trial.run(Setup(2), to=STEPS, kill_after=14)[:SAVE_EVERY],
        trial.run(Setup(1, accumulate=3), to=STEPS, kill_after=37)[: 30 - SAVE_EVERY],
        trial.run(Setup(3, accumulate=2), to=STEPS),
    ]
    steps = [step for part in parts for step in part]
    assert [(step.step, step.samples) for step in steps] == [(step.step, step.samples) for step in whole]
    assert [len(part[0].bits) for part in parts] == [2, 1, 3]
    # The same sums, rounded in another order.
    last = sum(float.fromhex(loss) for loss in steps[-1].losses) / 3
    assert last == pytest.approx(float.fromhex(whole[-1].losses[0]), rel=1e-3)


def test_precision_and_sharding_take_effect(tmp_path: Path) -> None:
    """bf16 has other bits than fp32. Sharded weights train as whole ones, also with accumulated gradients."""
    setups = [Setup(2), Setup(2, "bf16"), Setup(2, sharded=True), Setup(2, "bf16", 2, sharded=True)]
    found = {setup: Trial(tmp_path / str(setup), saving=False).run(setup, to=8) for setup in setups}
    assert len({steps[0].bits for steps in found.values()}) == len(setups)
    whole, *others = ([float.fromhex(loss) for step in steps for loss in step.losses] for steps in found.values())
    for losses in others:
        assert losses == pytest.approx(whole, rel=1e-2)
    for setup, steps in found.items():
        assert all(len(set(step.bits)) == 1 for step in steps), f"{setup}: ranks have different weights"
