"""Import: files of other programs, files that are refused, and prefixes that are in use."""

import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from tests.support.trainer.exchange import Net, assert_same, fails, junk, run, save, train
from tests.support.trainer.stores import environment

import holdfast_train
from holdfast_train import Run
from holdfast_train.errors import StorageUnreachableError
from holdfast_train.storage.folder import FolderStorage

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def plain_torch(path: Path, net: Net, optimizer: torch.optim.Optimizer) -> None:
    state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "seen": np.arange(3)}
    torch.save({name: value for name, value in state.items() if name != "seen"}, path)


def plain_dcp(path: Path, net: Net, optimizer: torch.optim.Optimizer) -> None:
    state = {"model": net.state_dict(), "optimizer": {"lr": 0.1, "m": [torch.ones(2), 5]}, "epoch": 3}
    dcp.save(state, checkpoint_id=path, no_dist=True)


@pytest.mark.parametrize("write", [plain_torch, plain_dcp])
def test_files_of_other_programs(prefix: Path, tmp_path: Path, write: Callable[..., None]) -> None:
    net, optimizer = train(prefix)
    write(tmp_path / "in", net, optimizer)
    run("import", tmp_path / "in", "--to", tmp_path / "back")
    found = holdfast_train.load(str(tmp_path / "back"))
    assert found["epoch"] == 3
    assert_same(dict(sorted(found["model"].items())), dict(sorted(net.state_dict().items())))
    if write is plain_torch:
        assert_same(found["optimizer"], optimizer.state_dict())
    else:
        assert_same(found["optimizer"], {"lr": 0.1, "m": [torch.ones(2), 5]})


def test_the_state_of_one_object_gets_a_name(prefix: Path, tmp_path: Path) -> None:
    net, optimizer = train(prefix)
    torch.save(net.state_dict(), tmp_path / "net.pt")
    torch.save({**optimizer.state_dict(), "numbers": np.arange(3)}, tmp_path / "optimizer.pt")
    run("import", tmp_path / "net.pt", "--to", tmp_path / "a")
    assert_same(holdfast_train.load(str(tmp_path / "a")), {"model": net.state_dict()})
    run("import", tmp_path / "optimizer.pt", "--to", tmp_path / "b", "--name", "optimizer")
    found = holdfast_train.load(str(tmp_path / "b"))["optimizer"]
    assert_same(found.pop("numbers"), np.arange(3))
    assert_same(found, optimizer.state_dict())


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("owned",)


@pytest.mark.parametrize("form", ["torch", "dcp"])
def test_code_in_a_file_is_not_run(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if form == "torch":
        torch.save({"model": {"x": torch.ones(1)}, "evil": Evil()}, "in")
    else:
        dcp.save({"x": torch.ones(1), "evil": Evil()}, checkpoint_id="in", no_dist=True)
    said = fails(capsys, "import", "in", "--to", tmp_path / "back")
    assert "mkdir" in said
    assert len(said.splitlines()) == 1
    assert not Path("owned").exists()
    assert not (tmp_path / "back").exists()


def test_the_refused_type_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"x": torch.ones(1), "half": Fraction(1, 2)}, tmp_path / "in.pt")
    said = fails(capsys, "import", tmp_path / "in.pt", "--to", tmp_path / "back")
    assert "contains more than tensors and plain values: fractions.Fraction. Loading it would run code" in said


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, "contains a state without entries"),
        ({"model": {}, "optimizer": {"state": {}}}, "contains a state without entries"),
        ([1], "contains a list; a state is a mapping by name: save what state_dict() of"),
    ],
)
def test_values_that_are_not_a_state_are_refused(
    tmp_path: Path, state: Any, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(state, tmp_path / "in.pt")
    assert f"{tmp_path / 'in.pt'} {words}" in fails(capsys, "import", tmp_path / "in.pt", "--to", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_several_objects_do_not_get_one_name(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(prefix, {"ema": {"x": torch.ones(2)}, "model": {"x": torch.zeros(2)}}, 7)
    for form in ("safetensors", "dcp"):
        run("export", prefix, tmp_path / form, "--format", form)
        said = fails(capsys, "import", tmp_path / form, "--to", tmp_path / "back", "--name", "model")
        assert f"{tmp_path / form} contains ema, model: --name is for a source of one object; leave it out" in said


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: junk(folder, "in.pt"), "cannot be read as a file of torch.save"),
        (lambda folder: junk(folder, "in.safetensors"), "cannot be read as safetensors"),
        (lambda folder: junk(folder, "in.safetensors.index.json"), "is not an index of safetensors files"),
        (
            lambda folder: junk(folder, "in.safetensors.index.json", b'{"weight_map": {"a": "b.safetensors"}}'),
            "names b.safetensors, which is not in the same folder",
        ),
        (lambda folder: folder, "has no safetensors files, and is not a folder of torch.distributed.checkpoint"),
        (lambda folder: folder / "nowhere", "does not exist"),
    ],
)
def test_sources_that_cannot_be_read(
    tmp_path: Path, make: Callable[[Path], Path], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in fails(capsys, "import", make(tmp_path), "--to", tmp_path / "back")


def test_a_prefix_with_a_log_is_refused(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(prefix)
    before = sorted(prefix.rglob("*"))
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")
    said = fails(capsys, "import", tmp_path / "x.safetensors", "--to", prefix, code=1)
    assert "the prefix belongs to the job ns/job; import to a prefix of its own" in said
    assert sorted(prefix.rglob("*")) == before
    run("import", tmp_path / "x.safetensors", "--to", tmp_path / "back", "--step", 3)
    said = fails(capsys, "import", tmp_path / "x.safetensors", "--to", tmp_path / "back", code=1)
    assert "contains an imported checkpoint already, as step 3" in said


def test_a_job_does_not_write_to_an_imported_prefix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")
    run("import", tmp_path / "x.safetensors", "--to", tmp_path / "back")
    with pytest.raises(SystemExit) as ended, Run(model=Net(), environment=environment(f"file://{tmp_path}/back")):
        pass
    assert ended.value.code == 78
    assert "contains an imported checkpoint: set its address as checkpoint.resume" in capsys.readouterr().err


def test_an_interrupted_import_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")

    def down(*_: Any, **__: Any) -> None:
        raise StorageUnreachableError("down")

    monkeypatch.setattr("holdfast_train.exchange.importing.PATIENCE_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(FolderStorage, "write", down)
        assert "down" in fails(capsys, "import", tmp_path / "x.safetensors", "--to", tmp_path / "back", code=3)
    run("import", tmp_path / "x.safetensors", "--to", tmp_path / "back")
    assert list(holdfast_train.load(str(tmp_path / "back"))["model"]) == ["x"]


def test_large_imports_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_train.format.manifest.PART_BYTES", 1 << 12)
    state = {f"{n}": torch.randn(n * 100) for n in range(1, 8)} | {"turned": torch.randn(50, 60).t()}
    torch.save(state, tmp_path / "in.pt")
    run("import", tmp_path / "in.pt", "--to", tmp_path / "back")
    assert len(FolderStorage(tmp_path / "back").keys("data/")) > 5
    assert_same(holdfast_train.load(str(tmp_path / "back"))["model"], state)
