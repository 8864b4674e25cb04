"""A small model that is really exported: all of a package, its bad variants, and the command."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.support.trainer.exchange import fails, run, save
from torch import nn

from holdfast_model.package import Arrays, Call, PackageError, Problem, ProblemError, Score, Tensor, load
from holdfast_model.package import variants as variants_module
from holdfast_model.package.build import build, choose
from holdfast_model.package.record import Origin

ONNX = ("safetensors", "onnx", "onnx-fp16", "onnx-int8")
ORIGIN = Origin("uid", 7, "file:///runs/manifests/7.json", "00", {"loss": "0.5"})


class Net(nn.Module):
    """Two linear maps. The second input is a mask of the same rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 16), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Mapping[str, torch.Tensor]:
        hidden = torch.relu(self.first(x)) * mask[:, None]
        return {"logits": self.second(hidden), "size": hidden.sum(1)}


def net() -> Net:
    torch.manual_seed(3)
    return Net()


def inputs(rows: int) -> Arrays:
    random = np.random.default_rng(rows)
    return {"x": random.standard_normal((rows, 4)).astype(np.float32), "mask": np.ones(rows, np.float32)}


def net_problem(score: float | None = None) -> Problem:
    """`score`: the accuracy of every variant but the model in torch, whose accuracy is 0.9."""
    first: list[float] = [0.9]

    def measure(_: Call) -> float:
        return first.pop() if first else float(score or 0)

    return Problem(
        model=net,
        inputs={"x": Tensor("float32", ("rows", 4)), "mask": Tensor("float32", ("rows",))},
        outputs={"logits": Tensor("float32", ("rows", 3)), "size": Tensor("float32", ("rows",))},
        dims={"rows": (1, 16)},
        examples=[inputs(3)],
        calibration=lambda: [inputs(rows) for rows in range(13, 17)],
        score=None if score is None else Score("accuracy", measure, 0.01),
        files={"config.json": "{}"},
        rename=lambda state: {f"net.{name}": tensor for name, tensor in state.items()},
    )


def unchecked(*_: str) -> Problem:
    """For `--problem`."""
    return net_problem()


def other(*_: str) -> int:
    """For `--problem`: not a problem."""
    return 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("packages") / "net"
    build(net_problem(), net(), ORIGIN, place, variants=[*ONNX, "onnx-fixed"], fixed={"rows": 2})
    return place


# Breaks if a symbol is fixed by tracing, if two inputs do not share theirs, or if outputs are taken in another order.
@pytest.mark.parametrize("variant", ["onnx", "onnx-fp16", "onnx-int8"])
@pytest.mark.parametrize("rows", [1, 2, 5, 16])
def test_every_variant_answers_as_torch_does(folder: Path, variant: str, rows: int) -> None:
    call = inputs(rows)
    with torch.no_grad():
        wanted = net()(*(torch.from_numpy(value) for value in call.values()))
    with load(folder, variant) as model:
        made = model(call)
    for name, value in wanted.items():
        assert made[name] == pytest.approx(value.numpy(), abs={"onnx": 1e-5, "onnx-fp16": 1e-2}.get(variant, 0.1))


# Breaks if tracing takes the size of the example for the only one (1), or for the largest that is no limit (16).
@pytest.mark.parametrize("size", [1, 16], ids=["least", "most"])
@pytest.mark.thorough
def test_an_example_at_a_limit_fixes_no_size(tmp_path: Path, size: int) -> None:
    problem = replace(net_problem(), examples=[inputs(size)])
    built = build(problem, net(), ORIGIN, tmp_path / "net", variants=["pt2", "onnx"])
    assert built.failed == {}
    for variant in ("pt2", "onnx"):
        with load(tmp_path / "net", variant, isolated=False) as model:
            assert [model(inputs(rows))["size"].shape for rows in (1, 2, 5, 16)] == [(1,), (2,), (5,), (16,)]
    module = torch.export.load(tmp_path / "net" / "pt2" / "model.pt2").module()
    with pytest.raises(AssertionError, match="Guard failed"):
        module(*(torch.from_numpy(value) for value in inputs(17).values()))


# Breaks if a module that a test of the package needs imports torch, or if a path of the first place is kept.
def test_a_package_that_was_moved_passes_on_a_machine_without_torch(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "moved")
    program = (
        "import sys; sys.modules['torch'] = None; from holdfast_train.exchange.command import main; "
        f"sys.exit(main(['test-package', {str(tmp_path / 'moved')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["safetensors", "its"], ["onnx", "passed"], ["onnx-fixed", "passed"], ["onnx-fp16", "passed"],
        ["onnx-int8", "passed"],
    ]  # fmt: skip


def test_a_fixed_size_is_fixed(folder: Path) -> None:
    with load(folder, "onnx-fixed") as model:
        assert model(inputs(2))["logits"].shape == (2, 3)
        with pytest.raises(PackageError, match="rows is 3, and must be 2 to 2"):
            model(inputs(3))


def test_what_the_folder_says(folder: Path) -> None:
    document = json.loads((folder / "package.json").read_text())
    assert document["from"] == {
        "jobUid": "uid", "step": 7, "manifest": ORIGIN.manifest, "sha256": "00", "metrics": {"loss": "0.5"},
    }  # fmt: skip
    assert [one["dims"]["rows"] for one in document["tests"]["cases"]] == [3, 2, 1, 16]
    assert set(document["variants"]) == {*ONNX, "onnx-fixed"}
    assert all(entry["tested"]["passed"] for entry in document["variants"].values())
    assert document["variants"]["onnx-int8"]["note"] == "static, calibrated with 4 inputs"
    assert len({path.stat().st_mode for path in folder.rglob("*") if path.is_file()}) == 1  # who reads one reads all
    card = (folder / "README.md").read_text()
    assert "| onnx-fp16 |" in card
    assert "From step 7" in card


def test_weights_have_the_names_that_the_program_gives(folder: Path) -> None:
    found = load_file(folder / "safetensors" / "model.safetensors")
    assert torch.equal(found["net.first.weight"], net().first.weight)
    assert (folder / "safetensors" / "config.json").read_text() == "{}"


# Breaks if an int8 model is believed because its file loads and its shapes are right.
def test_a_variant_whose_score_drops_is_left_out_and_named(tmp_path: Path) -> None:
    built = build(net_problem(score=0.8), net(), ORIGIN, tmp_path / "net", variants=["onnx-int8"])
    assert list(built.package.variants) == []
    assert "accuracy is 0.8000, and 0.9000 in torch; it may drop by 0.01" in built.failed["onnx-int8"]
    assert not (tmp_path / "net" / "onnx-int8").exists()
    assert not (tmp_path / "net" / "onnx").exists()  # it was made for int8 alone
    with pytest.raises(PackageError, match="passed its test"):
        load(tmp_path / "net")


# Breaks if an exporter that makes a wrong file, or none, is trusted.
def test_a_variant_that_exports_wrongly_is_left_out_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = variants_module._write_onnx

    def wrong(source: Any, file: Path, fixed: Mapping[str, int]) -> None:
        source.module.second.bias.data += 1.0
        right(source, file, fixed)
        source.module.second.bias.data -= 1.0

    monkeypatch.setattr(variants_module, "_write_onnx", wrong)
    built = build(net_problem(), net(), ORIGIN, tmp_path / "a", variants=["safetensors", "onnx"])
    assert list(built.package.variants) == ["safetensors"]
    assert "outputs differ by" in built.failed["onnx"]
    kept = build(net_problem(), net(), ORIGIN, tmp_path / "b", variants=["onnx"], keep_failed=True)
    assert kept.package.variants["onnx"]["tested"]["passed"] is False
    assert "FAILED: outputs differ" in (tmp_path / "b" / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"wanted": ["tflite"], "fixed": {}}, "there is no variant 'tflite'; allowed: safetensors, pt2, onnx"),
        ({"wanted": ["onnx-fixed"], "fixed": {}}, "needs a size for at least one symbol"),
        ({"wanted": None, "fixed": {"time": 1}}, "the problem has no symbol 'time' to fix; it has: rows"),
        ({"wanted": None, "fixed": {"rows": 17}}, "rows = 17 cannot be fixed; allowed: 1 to 16"),
    ],
)
def test_wrong_names_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(PackageError, match=said):
        choose(net_problem(), **arguments)


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    bad = Problem(
        model=net,
        inputs=net_problem().inputs,
        outputs={"logits": Tensor("float32", ("rows", 4)), "size": Tensor("float32", ("rows",))},
        dims={"rows": (1, 16)},
        examples=[inputs(3)],
    )
    with pytest.raises(ProblemError, match=r"logits has the shape \(3, 3\); 3 must be 4; correct the outputs"):
        build(bad, net(), ORIGIN, tmp_path / "net", variants=["onnx"])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "net").mkdir()
    with pytest.raises(PackageError, match="exists already"):
        build(net_problem(), net(), ORIGIN, tmp_path / "net", variants=["onnx"])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "runs", {"model": net().state_dict()}, 7)
    place = f"{__name__}:unchecked"
    arguments = ("package", tmp_path / "runs", tmp_path / "net", "--problem")
    run(*arguments, place, "--variant", "onnx")
    said = capsys.readouterr().out
    assert "step 7 of file://" in said
    assert "onnx         passed  largest" in said
    run("test-package", tmp_path / "net")
    assert "onnx         passed  largest difference" in capsys.readouterr().out
    with load(tmp_path / "net") as model:
        assert model(inputs(1))["logits"].shape == (1, 3)
    assert "exists already" in fails(capsys, *arguments, place)
    fresh = ("package", tmp_path / "runs", tmp_path / "new", "--problem")
    assert "is not a function; allowed: MODULE:FUNCTION" in fails(capsys, *fresh, "train")
    assert "there is no module 'nowhere'" in fails(capsys, *fresh, "nowhere:problem")
    assert "the module has no function 'nothing'" in fails(capsys, *fresh, f"{__name__}:nothing")
    assert "returns a int; it has to return" in fails(capsys, *fresh, f"{__name__}:other")
    file = tmp_path / "net" / "onnx" / "model.onnx"
    file.write_bytes(file.read_bytes() + b"x")
    fails(capsys, "test-package", tmp_path / "net")
