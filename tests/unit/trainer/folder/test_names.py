"""What names of files and folders say, as libraries and their users write them."""

import pytest

from holdfast_train.folder.names import is_log, is_numbered, is_temporary, number_of, step_of


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
        ("epoch=02-val_loss=0.32.ckpt", None, 2),
        ("epoch=4.ckpt", None, 4),
        ("epoch_000012.pth", None, 12),
        ("epoch10.pt", None, 10),  # Ultralytics
        ("model_3.pth", None, 3),  # torchvision
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


@pytest.mark.parametrize(
    ("name", "numbered"),
    [
        ("step-500", True),
        ("global_step40", True),
        ("epoch_3", True),
        ("epoch=0-step=10.ckpt", True),
        ("iter_0000100", True),
        ("ckpt-5", True),
        ("step1_warmup", False),
        ("exp2", False),
        ("2025", False),
        ("mp_rank_00", False),
    ],
)
def test_folders_of_one_save(name: str, numbered: bool) -> None:
    assert is_numbered(name) == numbered


# Breaks if half a file is taken for a whole one because it has its temporary name still, or a whole one is left out.
@pytest.mark.parametrize(
    ("name", "temporary"),
    [
        ("tmp-checkpoint-500", True),
        ("tmp.pth.tar", True),
        (".ckpt.pt.Xb12", True),
        ("step-100.tmp", True),
        ("step-100.tmp.3", True),
        ("ckpt_tmp.pt", True),
        ("12.orbax-checkpoint-tmp-1", True),
        ("last.pt.part", True),
        ("-v.pt", False),
        ("model_part_1.pt", False),
        ("temp_0.7.pt", False),
        ("attmp.pt", False),
        ("a\nb.pt", False),
    ],
)
def test_temporary_names(name: str, temporary: bool) -> None:
    assert is_temporary(name) == temporary


def test_logs() -> None:
    assert is_log("train.LOG")
    assert is_log("events.out.tfevents.1764054000.host")
    assert not is_log("config.json")
