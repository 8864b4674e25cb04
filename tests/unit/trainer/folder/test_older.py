"""What is put back if only the newest save is wanted."""

import json
import pickle
import zipfile
from pathlib import Path

import pytest
from tests.unit.trainer.folder.test_saves import TRAINER, files_of, found, inside

from holdfast_train.folder.inside import text_in
from holdfast_train.folder.look import look
from holdfast_train.folder.older import named_by, to_put_back
from holdfast_train.folder.saves import saves


def gone(*paths: str, **texts: str) -> list[str]:
    """The paths that are not put back."""
    known = {name.replace("__", "/"): text for name, text in texts.items()}
    files = files_of(*paths)
    kept = to_put_back(files, found(*paths)[-1], known.get)
    return sorted({file.path for file in files} - kept)


# Breaks if old saves cost their bytes at each start, or if something else than an old save is not put back.
@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["o/step-5/a.pt", "o/step-5/x/b.json", "o/step-9/a.pt", "o/log.txt"], ["o/step-5/a.pt", "o/step-5/x/b.json"]),
        (["model_200.pt", "optim_200.pt", "model_300.pt", "optim_300.pt", "v.json"], ["model_200.pt", "optim_200.pt"]),
        (["a/model_200.pt", "model_300.pt"], []),
        (["step-5", "step-9/a.pt"], []),
        (["best.pt", "last.pt"], []),
        (["stage1/checkpoint-9/a.pt", "stage2/checkpoint-5/a.pt"], []),
        (["fold_0/best.pt", "fold_1/best.pt"], []),
        (["model_0.pt", "model_1.pt"], []),
        (["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], []),
        (["optimizer_0.pt", "optimizer_1.pt"], []),
        (["gen_1/model.pt", "gen_2/model.pt"], []),
        (["ema-step-5/a.pt", "step-5/a.pt"], []),
        (["__0_0.distcp", ".metadata", "step-5.txt"], []),
        (["epoch=1-step=5.ckpt", "best.ckpt -> epoch=1-step=5.ckpt", "epoch=2-step=9.ckpt"], []),
        (["epoch=1-step=5.ckpt", "epoch=2-step=9.ckpt", "last.ckpt -> epoch=2-step=9.ckpt"], ["epoch=1-step=5.ckpt"]),
    ],
)  # fmt: skip
def test_older_saves(paths: list[str], expected: list[str]) -> None:
    assert gone(*paths) == expected


# Breaks if the best model, which a program loads at its end, is not there after a loss.
def test_what_the_newest_one_names() -> None:
    paths = [path for step in (5, 10, 15) for path in inside(f"out/checkpoint-{step}", *TRAINER)]
    state = json.dumps({"best_model_checkpoint": "/ckpt/out/checkpoint-10"})
    assert gone(*paths, out__checkpoint__15="") == sorted(paths[:6])
    files = files_of(*paths)
    kept = to_put_back(files, found(*paths)[-1], {"out/checkpoint-15/trainer_state.json": state}.get)
    assert {path.split("/")[1] for path in kept} == {"checkpoint-10", "checkpoint-15"}
    assert gone("model_200.pt", "optim_200.pt", "model_300.pt", "best", best="model_200.pt") == []
    assert gone("100/a.pt", "200/a.pt", "300/a.pt", "best", best="100\n") == ["200/a.pt"]


@pytest.mark.parametrize(
    ("text", "path", "named"),
    [
        ("out/checkpoint-10", "out/checkpoint-10", True),
        ('"/x/checkpoint-10/"', "out/checkpoint-10", True),
        ("checkpoint-100", "checkpoint-10", False),
        ("my-checkpoint-10", "checkpoint-10", False),
        ("a\nepoch=1.ckpt\nb", "epoch=1.ckpt", True),
        ("step 10", "10", False),
        ("10", "10", True),
        ("/x/10/default", "10", True),
    ],
)
def test_names_in_texts(text: str, path: str, named: bool) -> None:
    assert named_by([text], [path]) == ({path} if named else set())


# Breaks if the best checkpoint of Lightning, which only its newest file names, is not put back.
def test_names_inside_a_file_of_torch(tmp_path: Path) -> None:
    for step, best in ((10, ""), (20, "/x/epoch=0-step=10.ckpt"), (30, "/x/epoch=0-step=10.ckpt")):
        with zipfile.ZipFile(tmp_path / f"epoch=0-step={step}.ckpt", "w") as opened:
            opened.writestr("archive/data.pkl", pickle.dumps({"best_model_path": best}, 2))
    files = list(look(tmp_path).files.values())
    newest = max(saves(files, lambda _: True), key=lambda save: save.path)
    kept = to_put_back(files, newest, lambda path: text_in(tmp_path / path))
    assert sorted(kept) == ["epoch=0-step=10.ckpt", "epoch=0-step=30.ckpt"]
