"""Which files are one checkpoint, of which step, and when it is complete."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.trainer.folders import archive, hugging_face

from holdfast_train.folder.index import escapes
from holdfast_train.folder.layouts import find, path_of
from holdfast_train.folder.look import look
from holdfast_train.folder.marks import is_marked


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"content")


def incomplete_trainer(root: Path) -> None:
    hugging_face(root, 500)
    write(root, "checkpoint-500/checkpoint-is-incomplete.txt")


def torn_trainer(root: Path) -> None:
    (hugging_face(root, 500) / "trainer_state.json").write_text('{"global_step": 5')


def torn_archive(root: Path) -> None:
    path = archive(root / "step=7.ckpt", b"x" * 1000)
    path.write_bytes(path.read_bytes()[:-30])


# Breaks if a layout is not recognised, has another step, or is taken before its own mark is there.
@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda root: hugging_face(root, 500), [("checkpoint-500", "HuggingFace", 500, True)]),
        (lambda root: hugging_face(root / "run", 5), [("run/checkpoint-5", "HuggingFace", 5, True)]),
        (incomplete_trainer, [("checkpoint-500", "HuggingFace", 500, False)]),
        (torn_trainer, [("checkpoint-500", "HuggingFace", 500, False)]),
        (
            lambda root: write(root, "checkpoint-9/pytorch_model_fsdp_0/.metadata", "model.pt"),
            [("checkpoint-9", "HuggingFace", 9, False)],
        ),
        # Accelerate counts its checkpoints: the third one is not that of step 3.
        (lambda root: write(root, "checkpoint_3/model.bin"), [("checkpoint_3", "Accelerate", None, False)]),
        (lambda root: write(root, "checkpoint_3/random_states_0.pkl"), [("checkpoint_3", "Accelerate", None, True)]),
        (lambda root: write(root, "step_40/optimizer.bin"), []),
        (
            lambda root: write(root, "step_40/model.safetensors", "step_40/random_states_0.pkl"),
            [("step_40", "Accelerate", 40, True)],
        ),
        (lambda root: write(root, "epoch_0/random_states_0.pkl"), [("epoch_0", "Accelerate", None, True)]),
        (
            lambda root: write(root, "checkpoint-9/model.safetensors", "checkpoint-9/random_states_0.pkl"),
            [("checkpoint-9", "Accelerate", 9, True)],
        ),
        (
            lambda root: archive(root / "global_step40/mp_rank_00_model_states.pt"),
            [("global_step40", "Files", 40, True)],
        ),
        (lambda root: write(root, "step-40/m/a.distcp", "step-40/m/.metadata"), [("step-40", "Distributed", 40, True)]),
        (
            lambda root: write(root, "step-40/m/a.distcp", "step-40/o/a.distcp", "step-40/m/.metadata"),
            [("step-40", "Distributed", 40, False)],
        ),
        (lambda root: write(root, "tmp-checkpoint-500/trainer_state.json"), []),
        (lambda root: archive(root / "tmp-checkpoint-500/optimizer.pt"), []),
        (lambda root: archive(root / "step1_warmup/weights.pt"), [("step1_warmup", "Files", None, True)]),
        (lambda root: archive(root / "api/1764054000123/optim.pt"), [("api/1764054000123", "Files", None, True)]),
        (lambda root: write(root, "step-40/__0_0.distcp"), []),
        (lambda root: write(root, "step-40/__0_0.distcp", "step-40/.metadata"), [("step-40", "Distributed", 40, True)]),
        (lambda root: write(root, "12/_CHECKPOINT_METADATA", "12/d/x"), [("12", "Orbax", 12, True)]),
        (lambda root: write(root, "12.orbax-checkpoint-tmp-1/_CHECKPOINT_METADATA"), []),
        (lambda root: archive(root / "epoch=1-step=700.ckpt"), [("", "Files", 700, True)]),
        (lambda root: archive(root / "a/last.ckpt"), [("a", "Files", None, True)]),
        (torn_archive, [("", "Files", 7, False)]),
        (lambda root: write(root, "model.safetensors", "log.txt", ".metadata"), []),
    ],
)
def test_layouts(tmp_path: Path, make: Callable[[Path], object], found: list[tuple[object, ...]]) -> None:
    make(tmp_path)
    units = find(look(tmp_path))
    assert [(u.name, u.layout, u.step, is_marked(tmp_path, u)) for u in units] == found


# Breaks if files that belong together are saved apart, or an old one is saved with a new one.
def test_files_of_one_step(tmp_path: Path) -> None:
    for name in ("model-10.pt", "optim-10.pt", "model-20.pt", "optim-20.pt", "best.pt", "ema_tmp.pt", "log.json"):
        archive(tmp_path / name)
    (unit,) = find(look(tmp_path))
    assert (unit.step, [f.path for f in unit.files]) == (None, ["best.pt", "model-20.pt", "optim-20.pt"])


# Breaks if a log that grows all the time keeps a checkpoint from ever being saved.
def test_logs_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "step-5/train.log", "step-5/events.out.tfevents.1.host", "step-5/config.yaml", "train.json")
    archive(tmp_path / "step-5/model.pt")
    (unit,) = find(look(tmp_path))
    assert [f.path for f in unit.files] == ["step-5/config.yaml", "step-5/model.pt"]


# Breaks if one of the files that are one model together is not saved.
def test_files_that_are_one_model(tmp_path: Path) -> None:
    for number in (1, 2):
        archive(tmp_path / f"model-0000{number}-of-00002.pt")
    (unit,) = find(look(tmp_path))
    assert (unit.step, len(unit.files)) == (None, 2)


# Breaks if weights for use, which a program writes at its end, take the place of the checkpoint that it resumes from.
@pytest.mark.parametrize(
    ("other", "names"),
    [
        ("final/lit_model.pth", ["step-000500"]),
        ("best/lit_model.pth", ["step-000500"]),
        ("latest/lit_model.pth", ["latest", "step-000500"]),
        ("final/other.pth", ["final", "step-000500"]),
        ("run/final/lit_model.pth", ["run/final", "step-000500"]),
        ("lit_model.pth", ["", "step-000500"]),
    ],
)
def test_a_model_beside_the_folders_of_checkpoints(tmp_path: Path, other: str, names: list[str]) -> None:
    archive(tmp_path / "step-000500/lit_model.pth")
    archive(tmp_path / other)
    assert [unit.name for unit in find(look(tmp_path))] == names


# Breaks if the files of Lightning with save_last="link" are never saved, or are put back without the link.
def test_link_to_the_last(tmp_path: Path) -> None:
    archive(tmp_path / "a/epoch=0-step=10.ckpt")
    archive(tmp_path / "a/epoch=1-step=20.ckpt")
    (tmp_path / "a/last.ckpt").symlink_to("epoch=1-step=20.ckpt")
    (tmp_path / "a/first.ckpt").symlink_to("epoch=0-step=10.ckpt")
    (tmp_path / "a/out.ckpt").symlink_to("../epoch=1-step=20.ckpt")
    (unit,) = find(look(tmp_path))
    assert [file.path for file in unit.files] == ["a/epoch=1-step=20.ckpt", "a/last.ckpt"]
    assert is_marked(tmp_path, unit)
    assert escapes(unit) is None


def test_pattern(tmp_path: Path) -> None:
    write(tmp_path, "run-1/step-5/a", "run-1/step-5/b/c", "run-1/other", "run-2/step-6", "step-7")
    units = find(look(tmp_path), "run-*/step-*")
    assert [(u.name, u.step, u.is_folder, len(u.files)) for u in units] == [
        ("run-1/step-5", 5, True, 2),
        ("run-2/step-6", 6, False, 1),
    ]


# Breaks if a program is told to resume from the best model in place of the newest, or from a part of a checkpoint.
@pytest.mark.parametrize(
    ("names", "path"),
    [
        (["last.pth.tar", "checkpoint-3.pth.tar", "model_best.pth.tar"], "checkpoint-3.pth.tar"),
        (["last.pt", "best.pt"], "last.pt"),
        (["best.pt"], "best.pt"),
        (["checkpoint_best.pt", "checkpoint_last.pt"], "checkpoint_last.pt"),
        (["global_step40/mp_rank_00_model_states.pt"], "global_step40"),
        (["checkpoint-9/trainer_state.json"], "checkpoint-9"),
        (["a/model.safetensors", "a/optimizer.pt"], "a/optimizer.pt"),
    ],
)
def test_path_to_resume_from(tmp_path: Path, names: list[str], path: str) -> None:
    for name in names:
        archive(tmp_path / name)
    (unit,) = find(look(tmp_path))
    assert path_of(unit) == path
