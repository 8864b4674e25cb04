"""Steps from bars: right, or not told."""

import pytest

from holdfast_train.pod.launcher.patterns.figures import Figures
from holdfast_train.pod.launcher.patterns.pattern import patterns_of


def figures(preset: str, *lines: str) -> dict[str, str]:
    found = Figures(patterns_of([preset]))
    for line in lines:
        found.read(line)
    return found.metrics


def bars(*shown: tuple[int, int, int]) -> list[str]:
    """Bars of Lightning: epoch, batches, and batches in all."""
    return [f"Epoch {epoch}:  40%|████| {at}/{total} [00:01<00:02, train_loss=0.5]" for epoch, at, total in shown]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["50%|█| 5/10 [", "50%|█| 1/2 ["], {"step": "5", "total_steps": "10"}),
        (["100%|█| 500/500 [", "50%|█| 1/2 ["], {"step": "1", "total_steps": "2"}),
        (["50%|█| 5/10 [", "50%|█| 3/10 [x, loss=nan]"], {"step": "3", "total_steps": "10", "loss": "nan"}),
        (["50%|█| 12/10 ["], {}),
        (["50%|█| 0/10 ["], {"total_steps": "10"}),
    ],
)
def test_the_longest_bar_counts_until_it_is_full(lines: list[str], expected: dict[str, str]) -> None:
    assert figures("tqdm", *lines) == expected


# Breaks if the second epoch of a loop with a bar for each is shown as if the training had gone back to its first step.
def test_a_bar_for_each_epoch_says_no_step() -> None:
    lines = ["10%|█| 1/10 [", "100%|█| 10/10 [x, loss=2.0]", "100%|█| 10/10 [x, loss=2.0]"]
    assert figures("tqdm", *lines) == {"step": "10", "total_steps": "10", "loss": "2.0"}
    assert figures("tqdm", *lines, "0%|█| 0/10 [") == {"loss": "2.0"}
    assert figures("tqdm", *lines, "20%|█| 2/10 [", "100%|█| 10/10 [", "10%|█| 1/10 [x, loss=1]") == {"loss": "1"}


# Breaks if the bar of a rank that is behind looks like that of another epoch.
def test_all_ranks_show_the_same_bar() -> None:
    lines = [f"[rank{rank}]: {step}%|█| {step}/100 [" for step in (98, 99, 100) for rank in (0, 1)]
    lines[-2], lines[-3] = lines[-3], lines[-2]
    assert figures("tqdm", *lines) == {"step": "100", "total_steps": "100"}


# Breaks if a step is shown that is not that of the training: of an attempt that begins inside a later epoch, in the
# last epoch, which max_steps makes shorter, or with epochs of different length.
@pytest.mark.parametrize(
    ("shown", "step"),
    [
        ([(0, 40, 100)], "40"),
        ([(0, 1, 100), (0, 100, 100), (1, 100, 100), (2, 30, 50)], "230"),
        ([(0, 100, 100), (1, 30, 50)], "130"),
        ([(3, 40, 100)], None),
        ([(3, 40, 100), (4, 0, 100)], "400"),
        ([(3, 40, 100), (4, 100, 100), (5, 7, 30)], "507"),
        ([(1, 8, 8), (2, 1, 5)], None),
        ([(1, 8, 80), (2, 1, 100)], None),
        ([(1, 8, 80), (2, 100, 100), (3, 5, 20)], "305"),
        ([(0, 9, 100), (1, 9, 90), (2, 9, 90)], None),
        ([(0, 9, 100), (1, 9, 110)], None),
    ],
)
def test_steps_of_lightning(shown: list[tuple[int, int, int]], step: str | None) -> None:
    told = figures("lightning", *bars(*shown))
    assert told == {"loss": "0.5", **({"step": step} if step else {})}
