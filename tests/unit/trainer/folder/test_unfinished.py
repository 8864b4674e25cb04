"""Where the files of a folder together say that a save is under way."""

import json
import warnings
from pathlib import Path

import pytest

from holdfast_train.folder.look import look
from holdfast_train.folder.unfinished import is_temporary, unfinished

TRAINER = ("model.safetensors", "optimizer.pt", "rng_state.pth", "scheduler.pt", "training_args.bin")


def no_text(_path: str) -> None:
    return None


# Breaks if half a file is taken for a whole one because it has its temporary name still, or if a folder such as .hydra
# keeps each commit waiting.
@pytest.mark.parametrize(
    ("name", "temporary"),
    [
        ("tmp-checkpoint-500", True),
        ("tmp.pth.tar", True),
        ("tmpab_d1234", True),  # of Python's tempfile
        (".ckpt.pt.Xb12", True),  # of rsync
        (".model.safetensors.k3TzQe", True),
        (".tmp-ckpt.pt", True),
        (".metadata.tmp", True),
        ("step-100.tmp", True),
        ("step-100.tmp.3", True),
        ("ckpt_tmp.pt", True),
        ("12.orbax-checkpoint-tmp-1", True),
        ("last.pt.part", True),
        ("model.bin.incomplete", True),
        (".tmpRyps80", True),  # of safetensors
        (".tmpfolder", False),
        ("ckpt-5_temp", True),
        ("ckpt-5.data-00000-of-00001.tempstate123", True),
        ("-v.pt", False),
        ("model_part_1.pt", False),
        ("temp_0.7.pt", False),
        ("attmp.pt", False),
        ("a\nb.pt", False),
        ("tmp", False),
        (".hydra", False),
        (".metadata", False),
        (".gitignore", False),
        (".config.yaml", False),
        ("template", False),
    ],
)
def test_temporary_names(name: str, temporary: bool) -> None:
    assert is_temporary(name) == temporary
    assert ("a/" + name in unfinished([f"a/{name}/b/c"], no_text)) == temporary
    assert (name in unfinished([name], no_text)) == temporary


# Breaks if a save is committed before its last file is there, or if what is whole keeps each commit waiting.
@pytest.mark.parametrize(
    ("paths", "under_way"),
    [
        (["a/x.tmp/b", "a/x.tmp/c"], ["a/x.tmp"]),
        (["s/m/__0_0.distcp", "s/o/__0_0.distcp", "s/m/.metadata"], ["s/o"]),
        (["__0_0.distcp"], [""]),
        (["checkpoint-5/checkpoint-is-incomplete.txt", "checkpoint-5/trainer_state.json"], ["checkpoint-5"]),
        ([f"out/checkpoint-5/{name}" for name in TRAINER], ["out/checkpoint-5"]),
        (["checkpoint-5/rng_state_0.pth"], ["checkpoint-5"]),
        ([f"checkpoint-5/{name}" for name in (*TRAINER, "trainer_state.json")], []),
        (["checkpoint-5/model.safetensors", "checkpoint-5/optimizer.pt"], []),  # an own loop
        (["out/training_args.bin", "out/model.safetensors"], []),  # the model at the end
        (["step-5/scheduler.pt"], []),
        ([], []),
    ],
)
def test_folders(paths: list[str], under_way: list[str]) -> None:
    assert sorted(unfinished(paths, no_text)) == under_way


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('{"weight_map": {"a": "one.safetensors"}}', False),
        ('{"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}', True),
        ('{"weight_map": {"a": "../../two.safetensors", "b": "/two.safetensors"}}', False),
        ('{"weight_map": {"a": "../other.bin"}}', False),
        ('{"weight_map": {"a": ["two"], "b": "\\u0000"}}', True),
        ('{"weight_map": []}', False),
        ('{"weight_map": {"a": "tw', False),  # formats.whole says it
        ("[" * 100_000, False),
        ("[]", False),
        (None, False),
    ],
)
def test_an_index_names_files(text: str | None, missing: bool) -> None:
    index = "a/model.safetensors.index.json"
    found = unfinished([index, "a/one.safetensors", "other.bin"], {index: text}.get)
    assert (list(found) == [index], len(found)) == (missing, missing)


def test_the_reason_names_the_file() -> None:
    text = json.dumps({"weight_map": {"a": "two.safetensors"}})
    assert unfinished(["a.index.json"], lambda _: text) == {
        "a.index.json": "it names two.safetensors, which is missing"
    }


# Breaks if torch changes the order or the names of the files of a distributed checkpoint.
def test_torch_distributed(tmp_path: Path) -> None:
    import torch
    from torch.distributed.checkpoint import save

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save({"a": torch.zeros(3)}, checkpoint_id=tmp_path / "step-5", no_dist=True)
    assert unfinished(list(look(tmp_path).files), no_text) == {}
    (tmp_path / "step-5/.metadata").unlink()
    assert unfinished(list(look(tmp_path).files), no_text) == {"step-5": ".metadata is missing"}
