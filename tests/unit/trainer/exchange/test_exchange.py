"""holdfast-train export and import: what other programs read and write, and nothing lost on the way."""

import io
import json
import math
import os
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from tests.support.trainer import stores
from tests.support.trainer.stores import environment, identity
from torch import nn

import holdfast_train
from holdfast_train import Run
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.commitlog.records import Keep
from holdfast_train.data.elastic_sampler import ElasticSampler
from holdfast_train.errors import StorageUnreachableError
from holdfast_train.exchange.command import main
from holdfast_train.exchange.progress_bar import Bar, size_of
from holdfast_train.storage.folder import FolderStorage

FORMATS = ("safetensors", "dcp", "torch")
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


class Net(nn.Module):
    """With a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.layer = nn.Linear(6, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(self.layer(self.embed(x)))


def strange() -> dict[str, Any]:
    """What states may hold."""
    torch.manual_seed(5)
    shared = torch.randn(7, 3)
    return {
        "model": {
            "half/slash": torch.randn(5).to(torch.bfloat16),
            "eighth": torch.randn(9).to(torch.float8_e4m3fn),
            "other.eighth": torch.randn(9).to(torch.float8_e5m2),
            "scalar": torch.tensor(2**62),
            "none": torch.empty(0, 3),
            "turned": torch.arange(12.0).reshape(3, 4).t(),
            "flags": torch.tensor([True, False]),
            "tied": shared,
            "tied too": shared,
            "complex": torch.randn(3, dtype=torch.complex64),
        },
        "optimizer": {
            "state": {0: {"step": torch.tensor(3.0), "m": torch.randn(2, 2)}, 1: {}},
            "param_groups": [{"lr": 0.1, "betas": (0.9, math.inf), "params": [0, 1], "dtype": torch.bfloat16}],
            "nested": [torch.ones(2), (torch.zeros(1), {"deep": torch.ones(1, dtype=torch.int8)})],
        },
        "data": {
            "order": np.arange(6, dtype=">i4").reshape(2, 3),
            "names": np.array(["ab", "c"]),
            "one": np.float32(1.5),
            "none": np.zeros((0, 2)),
            "raw": b"\0\1",
        },
    }


def assert_same(first: Any, second: Any, path: str = "") -> None:
    """Bit for bit, with types, keys and their order."""
    assert type(first) is type(second), path
    if isinstance(first, dict):
        assert list(first) == list(second), path
        for key in first:
            assert_same(first[key], second[key], f"{path}/{key}")
    elif isinstance(first, list | tuple):
        assert len(first) == len(second), path
        for number, pair in enumerate(zip(first, second, strict=True)):
            assert_same(*pair, f"{path}/{number}")
    elif isinstance(first, torch.Tensor):
        assert (first.dtype, first.shape) == (second.dtype, second.shape), path
        bits = [one.contiguous().reshape(-1).view(torch.uint8) for one in (first, second)]
        assert torch.equal(*bits), path
    elif isinstance(first, np.ndarray | np.generic):
        assert (first.dtype, first.shape, first.tobytes()) == (second.dtype, second.shape, second.tobytes()), path
    else:
        assert first == second, path


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "prefix"


def save(prefix: Path, objects: dict[str, Any], *steps: int) -> None:
    checkpoints = Checkpoints(FolderStorage(prefix), identity(len(steps)), Keep(9))
    checkpoints.start("Auto")
    for step in steps:
        stores.save(checkpoints, step, {"objects": objects}, [{"rng": 1}])


def train(prefix: Path) -> tuple[Net, torch.optim.Optimizer]:
    """A net and an optimizer that were saved at step 4."""
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for _ in range(4):
        net(torch.arange(11)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    save(prefix, {"model": net.state_dict(), "optimizer": optimizer.state_dict()}, 4)
    return net, optimizer


def run(*args: Any) -> None:
    assert main([str(arg) for arg in args]) == 0


def fails(capsys: pytest.CaptureFixture[str], *args: Any, code: int = 1) -> str:
    """What a command says that fails."""
    capsys.readouterr()
    assert main([str(arg) for arg in args]) == code
    return capsys.readouterr().err


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("shard", ["5GB", "200B"])
def test_there_and_back_is_the_same_bit_for_bit(prefix: Path, tmp_path: Path, form: str, shard: str) -> None:
    save(prefix, strange(), 7)
    out, back = tmp_path / "out", tmp_path / "back"
    run("export", prefix, out, "--format", form, "--max-shard-size", shard)
    run("import", out, "--to", back, "--step", 9)
    expected = strange()
    if form == "torch":  # NumPy's own pickles are in the machine's byte order
        expected["data"]["order"] = expected["data"]["order"].astype("=i4")
    assert_same(holdfast_train.load(str(back)), expected)


@pytest.mark.parametrize("form", ["safetensors", "dcp"])
def test_name_and_step_are_kept(prefix: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    save(prefix, {"ema": {"x": torch.ones(2)}, "model": {"x": torch.zeros(2)}}, 7)
    run("export", prefix, tmp_path / "out", "--format", form, "--only", "ema")
    run("import", tmp_path / "out", "--to", tmp_path / "back")
    assert "step 7 from" in capsys.readouterr().out
    assert list(holdfast_train.load(str(tmp_path / "back"))) == ["ema"]
    run("import", tmp_path / "out", "--to", tmp_path / "again", "--name", "model")
    assert list(holdfast_train.load(str(tmp_path / "again"))) == ["model"]


def test_others_read_safetensors(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_large_ones_have_an_index_as_hugging_face_has(prefix: Path, tmp_path: Path) -> None:
    net, _ = train(prefix)
    run("export", prefix, tmp_path / "out", "--only", "model", "--max-shard-size", "300B")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json",
    ]  # fmt: skip
    assert len({path.stat().st_mode for path in (tmp_path / "out").iterdir()}) == 1  # who reads the index, reads all
    index = json.loads((tmp_path / "out" / names[-1]).read_text())
    assert index["metadata"]["total_size"] == sum(p.numel() * 4 for p in net.parameters())
    found: dict[str, Any] = {}
    for name in names[:-1]:
        part = safetensors.torch.load_file(tmp_path / "out" / name)
        assert {key: index["weight_map"][key] for key in part} == dict.fromkeys(part, name)
        assert sum(tensor.nbytes for tensor in part.values()) <= 300
        found |= part
    assert found.keys() == index["weight_map"].keys() == net.state_dict().keys() - {"head.weight"}


def test_others_read_torch_files_and_ties_stay(prefix: Path, tmp_path: Path) -> None:
    net, optimizer = train(prefix)
    run("export", prefix, tmp_path / "all.pt", "--format", "torch")
    found = torch.load(tmp_path / "all.pt", weights_only=True)
    assert_same(found["model"], dict(net.state_dict()))
    assert found["model"]["head.weight"].data_ptr() == found["model"]["embed.weight"].data_ptr()
    optimizer.load_state_dict(found["optimizer"])
    run("export", prefix, tmp_path / "layer.pt", "--format", "torch", "--only", "model.layer.")
    assert list(torch.load(tmp_path / "layer.pt", weights_only=True)) == ["layer.weight", "layer.bias"]


@pytest.mark.parametrize("name", ["one.pt", "one.pth"])
def test_the_end_of_a_name_says_that_it_is_a_torch_file(prefix: Path, tmp_path: Path, name: str) -> None:
    save(prefix, {"model": {"x": torch.ones(2)}}, 1)
    run("export", prefix, tmp_path / name)
    assert torch.equal(torch.load(tmp_path / name, weights_only=True)["x"], torch.ones(2))


@pytest.mark.parametrize("command", ["export", "import"])
def test_help_names_only_what_there_is(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = capsys.readouterr().out
    assert ("formats of files:" in said, "--format" in said) == (True, command == "export")


def test_others_read_dcp(prefix: Path, tmp_path: Path) -> None:
    net, _ = train(prefix)
    run("export", prefix, tmp_path / "out", "--format", "dcp")
    again = {"model": Net().state_dict()}
    dcp.load(again, checkpoint_id=tmp_path / "out", no_dist=True)
    assert_same(dict(again["model"]), dict(net.state_dict()))


def resumed(prefix: Path, uri: Path, /, **objects: Any) -> Run:
    """A new job that starts from `uri`, trains one step, saves that, and goes on once more."""
    other = {"HOLDFAST_JOB": "other", "HOLDFAST_JOB_UID": "u", "HOLDFAST_CHECKPOINT_RESUME": f"file://{uri}"}
    for attempt in (1, 2):
        with Run(**objects, environment=environment(f"file://{prefix}", attempt, **other)) as found:
            for step in found.steps(100):
                objects["model"](torch.arange(11)).square().mean().backward()
                objects["optimizer"].step()
                if step == found.resumed_from:
                    break
            found.advance()
            assert found.save()
            found.left = True
    return found


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_resumes_from_what_was_imported(prefix: Path, tmp_path: Path, form: str) -> None:
    net, optimizer = train(prefix)
    run("export", prefix, tmp_path / "out", "--format", form)
    run("import", tmp_path / "out", "--to", tmp_path / "back", "--step", 4)
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "back").rglob("*"))
    again = Net()
    its = torch.optim.AdamW(again.parameters(), lr=0.5)
    where = environment(
        f"file://{tmp_path}/new", 1, HOLDFAST_JOB="o", HOLDFAST_CHECKPOINT_RESUME=f"file://{tmp_path}/back"
    )
    with Run(model=again, optimizer=its, environment=where) as found:
        assert (found.step, found.resumed_from) == (4, 4)
        assert_same(dict(again.state_dict()), dict(net.state_dict()))
        assert_same(its.state_dict(), optimizer.state_dict())
        found.left = True
    run_of_two = resumed(tmp_path / "own", tmp_path / "back", model=again, optimizer=its)
    assert run_of_two.resumed_from == 5  # the address counts once
    assert sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "back").rglob("*")) == before


def test_weights_alone_are_enough_to_start_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    safetensors.torch.save_model(net, tmp_path / "model.safetensors")  # names the tied tensor in its metadata
    run("import", tmp_path / "model.safetensors", "--to", tmp_path / "back")
    again = Net()
    found = resumed(tmp_path / "own", tmp_path / "back", model=again, optimizer=torch.optim.AdamW(again.parameters()))
    assert found.resumed_from == 1
    said = capsys.readouterr().err
    assert "the checkpoint was imported, and holds no 'optimizer': that starts anew" in said
    assert "resumed from step 0" in said
    assert again.head.weight is again.embed.weight


def test_an_imported_checkpoint_with_nothing_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")
    run("import", tmp_path / "x.safetensors", "--to", tmp_path / "back", "--name", "ema")
    where = environment(f"file://{tmp_path}/own", 1, HOLDFAST_CHECKPOINT_RESUME=f"file://{tmp_path}/back")
    with pytest.raises(SystemExit), Run(model=Net(), environment=where):
        pass
    words = (
        "holds only 'ema', and none of model: give Run an object of such a name, or import the source again with --name"
    )
    assert words in capsys.readouterr().err


def test_a_sampler_goes_on_at_the_step_of_the_weights(
    prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(prefix, {"model": Net().state_dict(), "sampler": ElasticSampler(100, batch=10).state_dict()}, 14)
    run("export", prefix, tmp_path / "out", "--only", "model")
    run("import", tmp_path / "out", "--to", tmp_path / "back")
    seen = []
    for attempt in (1, 2):
        sampler = ElasticSampler(100, batch=10)
        early = iter(sampler)
        next(early)  # to look at a batch before the training
        other = {"HOLDFAST_JOB": "other", "HOLDFAST_CHECKPOINT_RESUME": f"file://{tmp_path}/back"}
        with Run(
            model=Net(), sampler=sampler, environment=environment(f"file://{tmp_path}/own", attempt, **other)
        ) as found:
            with pytest.raises(holdfast_train.HoldfastTrainError, match=f"put the sampler to step {sampler.step}"):
                next(early)
            seen += [batch for _, batch in zip(found.steps(12 + 4 * attempt), sampler, strict=False)]
            assert found.save()
            found.left = True
    assert seen == [ElasticSampler(100, batch=10).indices(step) for step in range(14, 20)]
    assert "holds no 'sampler': that goes on at step 14" in capsys.readouterr().err


def test_a_sampler_at_another_step_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sampler = ElasticSampler(100, batch=10)
    sampler.go_to(14)
    torch.save({"model": Net().state_dict(), "sampler": sampler.state_dict()}, tmp_path / "in.pt")
    run("import", tmp_path / "in.pt", "--to", tmp_path / "back")
    words = f"{tmp_path}/in.pt does not say its step: 0 is taken; --step says another"
    assert words in capsys.readouterr().out
    run("import", tmp_path / "in.pt", "--to", tmp_path / "right", "--step", 14)
    assert "does not say its step" not in capsys.readouterr().out
    objects = {"model": Net(), "sampler": ElasticSampler(100, batch=10)}
    where = environment(f"file://{tmp_path}/own", 1, HOLDFAST_CHECKPOINT_RESUME=f"file://{tmp_path}/back")
    with pytest.raises(SystemExit), Run(**objects, environment=where):
        pytest.fail("entered")
    said = capsys.readouterr().err
    assert f"'sampler' in file://{tmp_path}/back/manifests/" in said
    assert "is at step 14, and the checkpoint is of step 0: " in said
    assert "import it with --step 14 to another prefix, and start from that" in said
    where = environment(f"file://{tmp_path}/new", 1, HOLDFAST_CHECKPOINT_RESUME=f"file://{tmp_path}/right")
    with Run(**objects, environment=where) as found:
        assert found.step == 14
        found.left = True


def plain_torch(path: Path, net: Net, optimizer: torch.optim.Optimizer) -> None:
    state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "seen": np.arange(3)}
    torch.save({name: value for name, value in state.items() if name != "seen"}, path)


def plain_dcp(path: Path, net: Net, optimizer: torch.optim.Optimizer) -> None:
    state = {"model": net.state_dict(), "optimizer": {"lr": 0.1, "m": [torch.ones(2), 5]}, "epoch": 3}
    dcp.save(state, checkpoint_id=path, no_dist=True)


@pytest.mark.parametrize("write", [plain_torch, plain_dcp])
def test_what_others_have_written(prefix: Path, tmp_path: Path, write: Callable[..., None]) -> None:
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


def test_a_state_by_itself_gets_a_name(prefix: Path, tmp_path: Path) -> None:
    net, optimizer = train(prefix)
    torch.save(net.state_dict(), tmp_path / "net.pt")
    torch.save({**optimizer.state_dict(), "numbers": np.arange(3)}, tmp_path / "optimizer.pt")
    run("import", tmp_path / "net.pt", "--to", tmp_path / "a")
    assert_same(holdfast_train.load(str(tmp_path / "a")), {"model": dict(net.state_dict())})
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


def test_what_a_torch_file_may_not_hold_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"x": torch.ones(1), "half": Fraction(1, 2)}, tmp_path / "in.pt")
    said = fails(capsys, "import", tmp_path / "in.pt", "--to", tmp_path / "back")
    assert "holds more than tensors and plain values: fractions.Fraction. To load such a file runs code" in said


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, "holds a state without any entry"),
        ({"model": {}, "optimizer": {"state": {}}}, "holds a state without any entry"),
        ([1], "holds a list, and not the state of anything, which is a mapping by name: save what state_dict() of"),
    ],
)
def test_what_is_no_state_is_not_imported(
    tmp_path: Path, state: Any, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(state, tmp_path / "in.pt")
    assert f"{tmp_path / 'in.pt'} {words}" in fails(capsys, "import", tmp_path / "in.pt", "--to", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_several_objects_are_not_given_one_name(
    prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(prefix, {"ema": {"x": torch.ones(2)}, "model": {"x": torch.zeros(2)}}, 7)
    for form in ("safetensors", "dcp"):
        run("export", prefix, tmp_path / form, "--format", form)
        said = fails(capsys, "import", tmp_path / form, "--to", tmp_path / "back", "--name", "model")
        assert f"{tmp_path / form} holds ema, model: --name is for a source of one object; leave it out" in said


def junk(tmp_path: Path, name: str, content: bytes = b"junk") -> Path:
    (tmp_path / name).write_bytes(content)
    return tmp_path / name


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: junk(folder, "in.pt"), "cannot be read as a file of torch.save"),
        (lambda folder: junk(folder, "in.safetensors"), "cannot be read as safetensors"),
        (lambda folder: junk(folder, "in.safetensors.index.json"), "is no index of safetensors files"),
        (
            lambda folder: junk(folder, "in.safetensors.index.json", b'{"weight_map": {"a": "b.safetensors"}}'),
            "names b.safetensors, which is not beside it",
        ),
        (lambda folder: folder, "holds no safetensors files, and is no folder of torch.distributed.checkpoint"),
        (lambda folder: folder / "nowhere", "does not exist"),
    ],
)
def test_sources_that_cannot_be_read(
    tmp_path: Path, make: Callable[[Path], Path], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in fails(capsys, "import", make(tmp_path), "--to", tmp_path / "back")


def test_no_prefix_with_a_log_is_touched(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(prefix)
    before = sorted(prefix.rglob("*"))
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")
    said = fails(capsys, "import", tmp_path / "x.safetensors", "--to", prefix, code=78)
    assert "the prefix belongs to the job ns/job; import to a prefix of its own" in said
    assert sorted(prefix.rglob("*")) == before
    run("import", tmp_path / "x.safetensors", "--to", tmp_path / "back", "--step", 3)
    said = fails(capsys, "import", tmp_path / "x.safetensors", "--to", tmp_path / "back", code=78)
    assert "holds what was imported already, as step 3" in said


def test_no_job_writes_to_what_was_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")
    run("import", tmp_path / "x.safetensors", "--to", tmp_path / "back")
    with pytest.raises(SystemExit) as ended, Run(model=Net(), environment=environment(f"file://{tmp_path}/back")):
        pass
    assert ended.value.code == 78
    assert "holds what was imported: name it as checkpoint.resume" in capsys.readouterr().err


def test_an_import_that_was_cut_off_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "x.safetensors")

    def down(*_: Any, **__: Any) -> None:
        raise StorageUnreachableError("down")

    monkeypatch.setattr("holdfast_train.exchange.importing.PATIENCE", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(FolderStorage, "write", down)
        assert "down" in fails(capsys, "import", tmp_path / "x.safetensors", "--to", tmp_path / "back", code=75)
    run("import", tmp_path / "x.safetensors", "--to", tmp_path / "back")
    assert list(holdfast_train.load(str(tmp_path / "back"))["model"]) == ["x"]


def test_large_imports_go_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_train.format.manifest.PART_BYTES", 1 << 12)
    state = {f"{n}": torch.randn(n * 100) for n in range(1, 8)} | {"turned": torch.randn(50, 60).t()}
    torch.save(state, tmp_path / "in.pt")
    run("import", tmp_path / "in.pt", "--to", tmp_path / "back")
    assert len(FolderStorage(tmp_path / "back").keys("data/")) > 5
    assert_same(holdfast_train.load(str(tmp_path / "back"))["model"], state)


def test_nothing_is_left_of_an_export_that_failed(
    prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(prefix, {"model": {"x": torch.ones(9, dtype=torch.complex128)}}, 1)
    said = fails(capsys, "export", prefix, tmp_path / "out")
    assert "there is nothing at 'y'" in fails(capsys, "export", prefix, tmp_path / "p" / "q" / "out", "--only", "y")
    assert "x is of the type complex128, which safetensors does not have; use --format dcp or torch" in said
    for data in (prefix / "data").rglob("r*"):
        data.write_bytes(b"x" * data.stat().st_size)
    for form in FORMATS[1:]:
        said = fails(capsys, "export", prefix, tmp_path / "out", "--format", form, code=78)
        assert "none of the 1 checkpoints in" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prefix"]


def test_the_newest_that_holds_is_exported(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(prefix, {"model": {"x": torch.ones(9)}}, 1, 2)
    for data in (prefix / "data").glob("000000000002-*/r*"):
        data.write_bytes(b"x" * data.stat().st_size)
    run("export", prefix, tmp_path / "out")
    said = capsys.readouterr()
    assert "step 1: 1 tensor, 36 B" in said.out
    assert "checkpoint of step 2 does not hold" in said.err


def test_what_is_there_is_not_overwritten(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(prefix, {"model": {"x": torch.ones(90), "y": torch.ones(90)}}, 1)
    there = junk(tmp_path, "a.safetensors")
    assert "exists already" in fails(capsys, "export", prefix, there)
    other = junk(tmp_path, "b-00002-of-00002.safetensors")
    args = ("export", prefix, tmp_path / "b.safetensors", "--max-shard-size", "400B")
    assert "exists already" in fails(capsys, *args)
    assert there.read_bytes() == other.read_bytes() == b"junk"
    assert not (tmp_path / "b-00001-of-00002.safetensors").exists()


def test_names_with_slashes_as_show_has_them(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(prefix, {"model": {"a.0": {"x": torch.ones(2)}, "b/c": torch.ones(3), "b": {}}, "other": {}}, 1)
    run("export", prefix, tmp_path / "out", "--only", "model/a.0", "--only", "model/b/c")
    assert safetensors.torch.load_file(tmp_path / "out" / "model.safetensors").keys() == {"a.0.x", "b/c"}
    said = fails(capsys, "export", prefix, tmp_path / "no", "--only", "model/d")
    assert "there is nothing at 'model/d'; below 'model' there is model.a, model.b/c" in said


def test_wrong_words(prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(prefix)
    said = fails(capsys, "export", prefix, tmp_path / "out", "--only", "modle")
    assert "there is nothing at 'modle'; there is model, optimizer" in said
    assert "holds no checkpoint" in fails(capsys, "export", tmp_path / "none", tmp_path / "out", code=78)
    for args in (["export", "a", "s3://b/c"], ["export", "a", "b", "--max-shard-size", "big"], []):
        with pytest.raises(SystemExit) as ended:
            main(args)
        assert ended.value.code == 2
    assert "is no path of this machine" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_progress_is_for_terminals(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO]
) -> None:
    save(prefix, {"model": {"x": torch.ones(9)}}, 1)
    monkeypatch.setattr(sys, "stderr", err := stream())
    run("export", prefix, tmp_path / "out")
    assert ("100%  36 B" in err.getvalue()) == (stream is Terminal)
    assert stream is Terminal or err.getvalue() == ""


def test_sizes_for_people() -> None:
    assert [size_of(n) for n in (0, 999, 1500, 999_960_000, 5e12)] == ["0 B", "999 B", "1.5 kB", "1.0 GB", "5000.0 GB"]
    bar = Bar("x")
    bar.begin(10)(5)
    bar.begin(10)(5)
    assert bar._done == 5  # of a checkpoint that did not hold nothing is left
