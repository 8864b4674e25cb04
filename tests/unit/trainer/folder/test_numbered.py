"""What numbers in names of files and folders say, as libraries and their users write them."""

import pytest

from holdfast_train.folder.numbered import is_of_saves, number_of, save_of, series_of, step_of


# Breaks if the number of an epoch, of a save or of a part is shown as a step, or if the files of one save fall apart.
@pytest.mark.parametrize(
    ("name", "step", "number"),
    [
        ("epoch=3-step=900-v1.ckpt", 900, 900),
        ("checkpoint-12", None, 12),
        ("global_step40", 40, 40),
        ("000123.pt", 123, 123),
        ("iter_0000007", 7, 7),
        ("model_0004999.pth", 4999, 4999),  # Detectron2
        ("model000500.pt", 500, 500),
        ("opt000500.pt", 500, 500),
        ("ema_0.9999_000500.pt", 500, 500),
        ("rl_model_1000_steps.zip", 1000, 1000),  # stable-baselines3
        ("rl_model_replay_buffer_1000_steps.pkl", 1000, 1000),
        ("gpt2_bs8_steps50000", 50000, 50000),
        ("epoch=02-val_loss=0.32.ckpt", None, 2),
        ("epoch=4.ckpt", None, 4),
        ("epoch_000012.pth", None, 12),
        ("checkpoint_epoch_00005.pyth", None, 5),  # PySlowFast
        ("epoch10.pt", None, 10),  # Ultralytics
        ("model_3.pth", None, 3),  # torchvision
        ("weights.05-0.12.h5", None, 5),  # Keras
        ("ckpt-5.index", None, 5),  # TensorFlow
        ("ckpt-5.data-00000-of-00001", None, 5),
        ("checkpoint-3.pth.tar", None, 3),  # timm
        ("checkpoint0020.pth", None, 20),
        ("checkpoint3.pt", None, 3),  # fairseq, at the end of an epoch,
        ("checkpoint_1_500.pt", None, 500),  # and inside one
        ("ep0-ba100-rank0.pt", None, 100),
        ("model_0.5.pt", None, None),
        ("last.ckpt", None, None),
        ("model_best.pth.tar", None, None),
        ("model-00001-of-00002.pt", None, None),
        ("model-000001-of-000002.pt", None, None),
        ("mp_rank_00_model_states.pt", None, None),
        ("1764054000123", None, None),
        ("ckpt_1764054000.pt", None, None),
        ("resnet50.pt", None, None),
    ],
)
def test_numbers(name: str, step: int | None, number: int | None) -> None:
    assert (step_of(name), number_of(name)) == (step, number)


# Breaks if parts of one save are taken for saves of their own.
@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("step_100.pt", 100),
        ("epoch_3.pt", 3),
        ("checkpoint-3.pth.tar", 3),
        ("model_300.pt", 300),
        ("model_1.pt", None),
        ("optimizer_0.pt", None),
        ("rng_state_0.pth", None),
        ("0.pt", None),
        ("000100.pt", 100),
        ("12", None),
        ("500", 500),
    ],
)
def test_what_counts_saves(name: str, number: int | None) -> None:
    assert save_of(name) == number


@pytest.mark.parametrize(
    ("name", "of_saves", "series"),
    [
        ("step-500", True, "step-"),
        ("global_step40", True, "global_step"),
        ("epoch_3", True, "epoch_"),
        ("epoch=0-step=10", True, "epoch=0-step="),
        ("iter_0000100", True, "iter_"),
        ("it300", True, "it"),
        ("ckpt-5", True, "ckpt-"),
        ("500", False, ""),
        ("gen_12", False, "gen_"),
        ("resnet18_lr0.1_epochs_20", False, "resnet18_lr0.1_epochs_"),
        ("step1_warmup", False, None),
        ("exp2", False, None),
        ("fold_0", False, None),
        ("version_1", False, None),
        ("2026-01-05", False, None),
        ("mp_rank_00", False, "mp_rank_"),
    ],
)
def test_folders(name: str, of_saves: bool, series: str | None) -> None:
    assert (is_of_saves(name), series_of(name)) == (of_saves, series)
