"""Patterns, and the lines of real programs."""

import time

import pytest

from holdfast_train.pod.launcher.progress.patterns import PRESETS, Pattern, patterns_of


# Breaks if a number is cut, a word is found inside another one, or a line is read in another way than people read it.
@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        ("iter {step}: loss {loss}", "iter 120: loss 2.3134, time 88.10ms", {"step": "120", "loss": "2.3134"}),
        ("step {step} | loss {loss}", "epoch 3 | step   120 | loss 2.31", {"step": "120", "loss": "2.31"}),
        ('"step": {step}', '{"loss":2.1,"step":5}', {"step": "5"}),
        ('{{"step": {step}*"loss": {loss}}}', '{"step": 5, "lr": 1e-3, "loss": NaN}', {"step": "5", "loss": "NaN"}),
        ("'loss': {loss}", "{'eval_loss': 9.0, 'loss': 2.3, 'epoch': 0.1}", {"loss": "2.3"}),
        ("'loss': '{loss}'", "{'loss': '5.1e-05', 'grad_norm': '1'}", {"loss": "5.1e-05"}),
        ("loss={loss}", "val_loss=1.5 loss=-inf", {"loss": "-inf"}),
        ("{step},{loss}", "120,2.31", {"step": "120", "loss": "2.31"}),
        ("step {step}", "step 1.5", None),
        ("step {step}", "step 1,200", None),
        ("{step}/{total}", "1.5/20", None),
        ("{step}/{total}", "10/20.5", None),
        ("{step}/{total}", "run 3 at 10/20", {"step": "10", "total": "20"}),
        ("step {step}", "step 12345678901234567", None),
        ("loss {loss}", "loss nano", None),
        ("a*b {step}", "b 1 a b 2", {"step": "2"}),
        ("step {step}", "step", None),
        ("step {step}", "", None),
    ],
)
def test_a_line_is_read(pattern: str, line: str, expected: dict[str, str] | None) -> None:
    assert Pattern(pattern).find(line) == expected


@pytest.mark.parametrize(
    ("preset", "line", "expected"),
    [
        (
            "tqdm",
            " 12%|█▏        | 120/1000 [00:10<01:14, 11.90it/s, loss=2.31]",
            {"step": "120", "total": "1000", "loss": "2.31"},
        ),
        ("tqdm", "train: 100%|██████████| 10/10 [00:00<00:00, 99.1it/s]", {"step": "10", "total": "10"}),
        ("tqdm", "  0%|          | 0/5 [00:00<?, ?it/s]", {"step": "0", "total": "5"}),
        ("tqdm", "120/1000 files", {}),
        (
            "lightning",
            "Epoch 3:  40%|████      | 40/100 [00:01<00:02, 30.01it/s, v_num=0, train_loss=0.512]",
            {"epoch": "3", "bar_step": "40", "bar_steps": "100", "loss": "0.512"},
        ),
        ("lightning", "Validation DataLoader 0: 100%|██████████| 4/4 [00:00<00:00, 305.51it/s]", {}),
    ],
)
def test_a_preset_reads_the_bars_of_its_library(preset: str, line: str, expected: dict[str, str]) -> None:
    found: dict[str, str] = {}
    for pattern in patterns_of([preset]):
        found |= pattern.find(line) or {}
    assert found == expected


def test_an_unknown_placeholder_is_an_error() -> None:
    with pytest.raises(KeyError):
        patterns_of(["{steps}"])
    assert set(PRESETS) == {"tqdm", "lightning"}


# Breaks if a pattern can be tried in several ways: each of these takes hours then.
@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("*".join(["a"] * 120) + "{step}", "a" * 2048),
        ("1".join(["{step}"] * 30), "1" * 2048),
        (" ".join(["{loss}"] * 30) + "x", "1 " * 1024),
        ("a" * 200 + "{step}", "a" * 2048),
        (" - " * 60 + "{step}", " - " * 680),
    ],
)
def test_a_hostile_pattern_and_line_take_little_time(pattern: str, line: str) -> None:
    began = time.thread_time()
    assert Pattern(pattern).find(line) is None
    assert time.thread_time() - began < 2
