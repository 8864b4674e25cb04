"""Steps from bars: right, or not told."""

import pytest

from holdfast_train.pod.launcher.progress.figures import Figures
from holdfast_train.pod.launcher.progress.patterns import patterns_of


def figures(pattern: str, *lines: str) -> dict[str, str]:
    found = Figures(patterns_of([pattern]))
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


# Breaks if a program that prints each tenth step only, or no total, has an epoch shown as its training; or if two ranks
# that print, one step apart, count as epochs.
@pytest.mark.parametrize(
    ("pattern", "line", "steps", "told"),
    [
        ("[{step}/{total}]", "[{}/25]", [1, 11, 21, 1], {}),
        ("[{step}/{total}]", "[{}/25]", [0, 10, 20, 0, 10], {}),
        ("[{step}/{total}]", "[{}/25]", [13, 12, 14, 13], {"step": "13", "total_steps": "25"}),
        ("step {step}", "epoch x step {}", [100, 400, 90], {}),
        ("step {step}", "step {}", [400, 390], {"step": "390"}),
        ("step {step}", "step {}", [0, 1, 0, 2], {"step": "2"}),
    ],
)
def test_a_count_that_begins_again_says_no_step(
    pattern: str, line: str, steps: list[int], told: dict[str, str]
) -> None:
    assert figures(pattern, *(line.format(step) for step in steps)) == told


# Breaks if a program that counts its batches again in each epoch shows no step, that of its epoch, or another total.
@pytest.mark.parametrize(
    ("pattern", "lines", "told"),
    [
        (
            "Epoch: [{epoch}][ {epoch_step}/{epoch_steps}]*Loss {loss} (",
            ["Epoch: [0][ 91/100]\tTime  0.1\tLoss 6.9e+00 (7e+00)", "Epoch: [1][  1/100]\tTime  0.1\tLoss 5.0 (5.0)"],
            {"step": "101", "loss": "5.0"},
        ),
        (
            "Epoch: [{epoch}/{epochs}] [ {epoch_step}/{epoch_steps}]*loss: {loss} (",
            ["Epoch: [2/90]  [ 10/20]  eta: 0:00:01  lr: 0.1  loss: 2.5 (2.6)", "Test:   [ 1/4]  loss: 9.0 (9.0)"],
            {"step": "50", "total_steps": "1800", "loss": "2.5"},
        ),
        (
            "Train Epoch: {epoch_from_1} [ {epoch_step}/{epoch_steps} (*Loss: {loss}",
            ["Train Epoch: 2 [640/1000 (64%)]\tLoss: 0.5"],
            {"step": "1640", "loss": "0.5"},
        ),
        (
            "{epoch_from_1}/{epochs}*: *%* {epoch_step}/{epoch_steps}",
            ["\x1b[K    2/3     0G   0.7    4    32: 66% ━━──── 8/12 19.0it/s", "  all   top1: 100% ━━ 2/2 9it/s"],
            {"step": "20", "total_steps": "36"},
        ),
        ("{epoch_from_1} {epoch_step}/{epoch_steps}", ["0 5/10"], {}),
        ("{epoch} {epoch_step}/{epoch_steps}", ["1 0/0", "1 11/10"], {}),
    ],
)
def test_steps_of_epochs(pattern: str, lines: list[str], told: dict[str, str]) -> None:
    assert figures(pattern, *lines) == told


# Breaks if a bar of what a library does before or beside a training is shown as the training.
def test_bars_beside_the_training_say_nothing() -> None:
    beside = [
        "Loading weights: 100%|█| 148/148 [00:00<00:00, 9.1it/s]",
        "Running tokenizer on dataset: 100%|█| 500/500 [00:00<00:00, 9.1 examples/s]",
        "Map (num_proc=4):  50%|█| 250/500 [00:00<00:00, 9.1 examples/s]",
        "my own words: 100%|█| 500/500 [00:00<00:00, 9.1 examples/s]",
        "Writing model shards: 100%|█| 1/1 [00:00<00:00, 9.1it/s]",
        "Validation: 100%|█| 900/900 [00:00<00:00, 9.1it/s, loss=7]",
    ]
    assert figures("tqdm", *beside) == {}
    bars = ["  5%|█| 3/60 [00:00<00:09, 9.1it/s]", "Training:   7%|█| 4/60 [00:00<00:09, 9.1it/s, loss=2]"]
    assert figures("tqdm", *beside, *bars, *beside) == {"step": "4", "total_steps": "60", "loss": "2"}


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
