"""Variants that commands make: made, tested by a worker of their own, and never passed without one."""

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from tests.support.trainer.exchange import fails, run, save
from torch import nn

from holdfast_model.package import PackageError, Problem, Tensor, load
from holdfast_model.package.build import Built, build
from holdfast_model.package.convert import conversions
from holdfast_model.package.package_tests import run_tests
from holdfast_model.package.record import Origin
from holdfast_model.package.variants import VARIANTS

ORIGIN = Origin("uid", 7, "file:///runs/manifests/7.json", "00")
COPY = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[-1])"
# A worker that was written by somebody else, from the description of the frames alone. It adds sys.argv[2] to outputs.
WORKER = """
import json, struct, sys
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
def answer(arrays):
    head = json.dumps({"arrays": [[n, a.dtype.name, a.shape] for n, a in arrays.items()]}).encode()
    body = b"".join(a.tobytes() for a in arrays.values())
    sys.stdout.buffer.write(struct.pack("<QQ", len(head), len(body)) + head + body)
    sys.stdout.buffer.flush()
answer({})
while first := sys.stdin.buffer.read(16):
    length, size = struct.unpack("<QQ", first)
    head, body, at, call = json.loads(sys.stdin.buffer.read(length)), sys.stdin.buffer.read(size), 0, {}
    for name, dtype, shape in head["arrays"]:
        array = np.frombuffer(body, dtype, int(np.prod(shape)), at).reshape(shape)
        call[name], at = array, at + array.nbytes
    answer({"logits": session.run(["logits"], call)[0] * np.float32(sys.argv[2])})
"""


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))


def rows(count: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)}


def net_problem(*_: str) -> Problem:
    return Problem(
        model=net,
        inputs={"x": Tensor("float32", ("rows", 4))},
        outputs={"logits": Tensor("float32", ("rows", 3))},
        dims={"rows": (1, 8)},
        examples=[rows(3)],
        calibration=lambda: [rows(5), rows(6)],
    )


def words(program: str, *more: str) -> str:
    return shlex.join([sys.executable, "-c", program]) + " " + " ".join(more)


def made(
    folder: Path, command: str, worker: str = "", base: str = "onnx", keep_failed: bool = False, **fixed: int
) -> Built:
    converted = conversions([f"chip={command}"], [f"chip={worker}"] if worker else [], list(VARIANTS))
    return build(
        net_problem(), net(), ORIGIN, folder,
        variants=[base], fixed=fixed, converted=converted, keep_failed=keep_failed,
    )  # fmt: skip


# Breaks if a variant that nothing ran passes for one that was tested.
def test_without_a_worker_it_is_not_tested_and_is_not_opened(tmp_path: Path) -> None:
    built = made(tmp_path / "net", words(COPY, "{onnx}", "{out}"))
    entry = built.package.variants["chip"]
    assert (entry["tested"], entry["runtime"], list(entry["files"])) == (None, "command", ["chip/model.chip"])
    assert built.failed == {}
    assert "not tested" in (tmp_path / "net" / "README.md").read_text()
    with load(tmp_path / "net") as model:
        assert model.variant == "onnx"
    with pytest.raises(PackageError, match="does not run by itself"):
        load(tmp_path / "net", "chip")
    assert run_tests(tmp_path / "net")["chip"] == "its files are intact; it does not run by itself"
    document = json.loads((tmp_path / "net" / "package.json").read_text())
    document["variants"]["onnx"]["tested"] = None  # only what a command made may have no test
    (tmp_path / "net" / "package.json").write_text(json.dumps(document))
    with pytest.raises(PackageError, match=r"variants\.onnx\.tested is None"):
        load(tmp_path / "net")


# Breaks if answers of a worker in another program cannot be read, or if a wrong answer passes.
def test_a_worker_tests_it(tmp_path: Path) -> None:
    good = made(tmp_path / "good", words(COPY, "{onnx}", "{out}"), words(WORKER, "{file}", "1"))
    assert good.package.variants["chip"]["tested"]["passed"] is True
    bad = made(tmp_path / "bad", words(COPY, "{onnx}", "{out}"), words(WORKER, "{file}", "-1"))
    assert "chip" not in bad.package.variants
    assert "outputs have to agree by 95%" in bad.failed["chip"]
    assert not (tmp_path / "bad" / "chip").exists()
    assert json.loads((tmp_path / "bad" / "package.json").read_text())["failed"] == bad.failed


@pytest.mark.parametrize(
    ("worker", "why"),
    [
        (words("print('{}' * 99)", "{file}"), "the process of the model ended with"),
        ("nowhere {file}", "the worker nowhere cannot be started: No such file"),
        (words("import sys,struct; sys.stdout.buffer.write(struct.pack('<QQ',2,0)+b'[]')", "{file}"), "ended with"),
    ],
    ids=["text", "missing", "head"],
)
def test_a_worker_that_is_none(tmp_path: Path, worker: str, why: str) -> None:
    assert why in made(tmp_path / "net", words(COPY, "{safetensors}", "{out}"), worker, "safetensors").failed["chip"]


# Breaks if a compiler gets a program whose sizes are still open, or other data than the calibration.
def test_fixed_sizes_and_calibration(tmp_path: Path) -> None:
    program = (
        "import pathlib, shutil, sys; place = pathlib.Path(sys.argv[3]); shutil.copy(sys.argv[1], place); "
        "shutil.copy(sys.argv[2], place.parent / 'data.safetensors')"
    )
    built = made(
        tmp_path / "net", words(program, "{onnx-fixed}", "{calibration}", "{out}"), words(WORKER, "{file}", "1"), rows=2
    )
    entry = built.package.variants["chip"]
    assert (entry["fixed"], entry["tested"]["passed"]) == ({"rows": 2}, True)
    data = load_file(tmp_path / "net" / "chip" / "data.safetensors")
    assert {name: array.shape for name, array in data.items()} == {"0/x": (5, 4), "1/x": (6, 4)}
    pt2 = made(tmp_path / "other", words(COPY, "{pt2-fixed}", "{out}"), base="safetensors", rows=2)
    module = torch.export.load(tmp_path / "other" / "chip" / "model.chip").module()
    assert pt2.failed == {}
    assert module(torch.ones(2, 4)).shape == (2, 3)
    with pytest.raises(AssertionError, match="Guard failed"):
        module(torch.ones(3, 4))
    with pytest.raises(PackageError, match="is made of fixed sizes"):
        made(tmp_path / "none", words(COPY, "{pt2-fixed}", "{out}"))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (words("import sys; sys.exit('no such operator')", "{out}"), "exit code 1: no such operator"),
        (words("pass", "{out}"), "did not write {out}, the file chip/model.chip"),
        (words("import os, sys; os.symlink('/etc/hostname', sys.argv[1])", "{out}"), "wrote the link model.chip"),
    ],
    ids=["fails", "nothing", "link"],
)
def test_a_command_that_makes_nothing(tmp_path: Path, command: str, why: str) -> None:
    built = made(tmp_path / "net", command, base="safetensors")
    assert why in built.failed["chip"]
    assert list(built.package.variants) == ["safetensors"]
    kept = made(tmp_path / "kept", command, base="safetensors", keep_failed=True).package.variants["chip"]
    assert (kept["tested"]["passed"], kept["files"]) == (False, {})
    assert not (tmp_path / "net" / "chip").exists()
    assert not (tmp_path / "kept" / "chip").exists()


# Breaks if a variant is made of one whose outputs are wrong, and then said to be only not tested.
def test_nothing_is_made_of_what_did_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "equal", lambda *_: False)
    built = made(tmp_path / "net", words(COPY, "{safetensors}", "{out}"), base="safetensors")
    assert built.failed["chip"] == "it is made of safetensors, which did not pass"
    assert list(built.package.variants) == []


def test_the_command_and_a_place_in_a_storage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "runs", {"model": net().state_dict()}, 7)
    there = tmp_path / "packages"
    there.mkdir()
    arguments = (
        "package", tmp_path / "runs", f"file://{there}/net", "--problem", f"{__name__}:net_problem",
        "--variant", "safetensors", "--convert", f"chip={words(COPY, '{safetensors}', '{out}')}",
    )  # fmt: skip
    run(*arguments)
    said = capsys.readouterr()
    assert "  chip         not tested" in said.out
    assert "step 1 of " in said.err
    assert json.loads((there / "net" / "package.json").read_text())["name"] == "net"
    before = (there / "net" / "package.json").read_bytes()
    run(*arguments)  # as the next attempt of a job whose node was lost after the last write
    assert "is there already, from the same checkpoint" in capsys.readouterr().out
    assert (there / "net" / "package.json").read_bytes() == before
    save(tmp_path / "runs", {"model": net().state_dict()}, 8, 9)
    assert "is a package already" in fails(capsys, *arguments)
    assert "which is not of a package" in fails(capsys, *arguments[:2], f"file://{tmp_path}/runs", *arguments[3:])
