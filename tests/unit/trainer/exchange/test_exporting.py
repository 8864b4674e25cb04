"""Export: other programs read the files, and an error leaves none."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from tests.support.trainer.exchange import FORMATS, Net, assert_same, fails, junk, run, save, train

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def test_other_programs_read_safetensors(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, _ = train(prefix)
    file = tmp_path / "net.safetensors"
    run("export", prefix, file, "--only", "model")
    assert "tied, and written once: head.weight (is embed.weight)" in capsys.readouterr().out
    found = safetensors.torch.load_file(file)
    assert_same(found, {name: net.state_dict()[name] for name in found})
    assert found.keys() == net.state_dict().keys() - {"head.weight"}
    with safetensors.safe_open(file, "pt") as opened:
        assert opened.metadata().items() >= {"format": "pt", "head.weight": "embed.weight"}.items()
    again = Net()
    assert safetensors.torch.load_model(again, file) == (set(), [])
    assert_same(dict(again.state_dict()), dict(net.state_dict()))


def test_large_exports_have_the_index_of_hugging_face(prefix: Path, tmp_path: Path) -> None:
    net, _ = train(prefix)
    run("export", prefix, tmp_path / "out", "--only", "model", "--max-shard-size", "300B")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json",
    ]  # fmt: skip
    assert (
        len({path.stat().st_mode for path in (tmp_path / "out").iterdir()}) == 1
    )  # a user who can read the index can read all files
    index = json.loads((tmp_path / "out" / names[-1]).read_text())
    assert index["metadata"]["total_size"] == sum(p.numel() * 4 for p in net.parameters())
    found: dict[str, Any] = {}
    for name in names[:-1]:
        part = safetensors.torch.load_file(tmp_path / "out" / name)
        assert {key: index["weight_map"][key] for key in part} == dict.fromkeys(part, name)
        assert sum(tensor.nbytes for tensor in part.values()) <= 300
        found |= part
    assert found.keys() == index["weight_map"].keys() == net.state_dict().keys() - {"head.weight"}


def test_other_programs_read_torch_files_and_ties_stay(prefix: Path, tmp_path: Path) -> None:
    net, optimizer = train(prefix)
    run("export", prefix, tmp_path / "all.pt", "--format", "torch")
    found = torch.load(tmp_path / "all.pt", weights_only=True)
    assert_same(found["model"], net.state_dict())
    assert found["model"]["head.weight"].data_ptr() == found["model"]["embed.weight"].data_ptr()
    optimizer.load_state_dict(found["optimizer"])
    run("export", prefix, tmp_path / "layer.pt", "--format", "torch", "--only", "model.layer.")
    assert list(torch.load(tmp_path / "layer.pt", weights_only=True)) == ["layer.weight", "layer.bias"]


@pytest.mark.parametrize("name", ["one.pt", "one.pth"])
def test_a_name_with_pt_or_pth_is_a_torch_file(prefix: Path, tmp_path: Path, name: str) -> None:
    save(prefix, {"model": {"x": torch.ones(2)}}, 1)
    run("export", prefix, tmp_path / name)
    assert torch.equal(torch.load(tmp_path / name, weights_only=True)["x"], torch.ones(2))


def test_other_programs_read_dcp(prefix: Path, tmp_path: Path) -> None:
    net, _ = train(prefix)
    run("export", prefix, tmp_path / "out", "--format", "dcp")
    again = {"model": Net().state_dict()}
    dcp.load(again, checkpoint_id=tmp_path / "out", no_dist=True)
    assert_same(dict(again["model"]), dict(net.state_dict()))


def test_a_failed_export_leaves_no_files(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(prefix, {"model": {"x": torch.ones(9, dtype=torch.complex128)}}, 1)
    said = fails(capsys, "export", prefix, tmp_path / "out")
    assert "there is nothing at 'y'" in fails(capsys, "export", prefix, tmp_path / "p" / "q" / "out", "--only", "y")
    assert (
        "x has the type complex128, which safetensors does not have; use holdfast-train export with --format dcp"
        in said
    )
    for data in (prefix / "data").rglob("r*"):
        data.write_bytes(b"x" * data.stat().st_size)
    for form in FORMATS[1:]:
        said = fails(capsys, "export", prefix, tmp_path / "out", "--format", form, code=4)
        assert "none of the 1 checkpoints in" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prefix"]


def test_the_newest_intact_checkpoint_is_exported(
    prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(prefix, {"model": {"x": torch.ones(9)}}, 1, 2)
    for data in (prefix / "data").glob("000000000002-*/r*"):
        data.write_bytes(b"x" * data.stat().st_size)
    run("export", prefix, tmp_path / "out")
    said = capsys.readouterr()
    assert "step 1: 1 tensor, 36 B" in said.out
    assert "checkpoint of step 2 is broken" in said.err


def test_existing_files_are_not_overwritten(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(prefix, {"model": {"x": torch.ones(90), "y": torch.ones(90)}}, 1)
    there = junk(tmp_path, "a.safetensors")
    assert "exists already" in fails(capsys, "export", prefix, there)
    other = junk(tmp_path, "b-00002-of-00002.safetensors")
    args = ("export", prefix, tmp_path / "b.safetensors", "--max-shard-size", "400B")
    assert "exists already" in fails(capsys, *args)
    assert there.read_bytes() == other.read_bytes() == b"junk"
    assert not (tmp_path / "b-00001-of-00002.safetensors").exists()


def test_names_with_slashes_as_in_show(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(prefix, {"model": {"a.0": {"x": torch.ones(2)}, "b/c": torch.ones(3), "b": {}}, "other": {}}, 1)
    run("export", prefix, tmp_path / "out", "--only", "model/a.0", "--only", "model/b/c")
    assert safetensors.torch.load_file(tmp_path / "out" / "model.safetensors").keys() == {"a.0.x", "b/c"}
    said = fails(capsys, "export", prefix, tmp_path / "no", "--only", "model/d")
    assert "there is nothing at 'model/d'; below 'model' there is model.a, model.b/c" in said
