"""Files that the real libraries write are read value by value, and their names do not matter."""

import csv
import json
import pickle
import random
import zipfile
from collections import OrderedDict, deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from tests.unit.cli.rehearse.compare.reading.joblib_file import JOBLIB

from holdfast_cli.rehearse.compare.difference import gather
from holdfast_cli.rehearse.compare.reading import values
from holdfast_cli.rehearse.compare.reading.read import ALL, read
from holdfast_cli.rehearse.compare.reading.values import Contents, Raw, Tensor


def plain(value: Any) -> bytes:
    """The bytes of a tensor that was read, row by row."""
    assert isinstance(value, Tensor)
    found = gather(value)
    assert found is not None
    return found.source.read(0, found.source.size)


def state() -> dict[str, Any]:
    """What a program saves: a model, an optimizer, a schedule, generators and counters."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "generators": {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": np.random.get_state()},
        "epoch": 3,
        "best": 0.25,
    }


# Breaks if a place of a file of torch.save is named otherwise, or if a tensor gets the bytes of another one.
@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_of_torch_save(tmp_path: Path, zipped: bool) -> None:
    saved, path = state(), tmp_path / "last.bin"
    torch.save(saved, path, _use_new_zipfile_serialization=zipped)
    found = read(path)
    assert (found.form, found.note) == ("file of torch.save", "")
    for name, tensor in saved["model"].items():
        value = found.values[f"model.{name}"]
        assert isinstance(value, Tensor)
        assert value.kind == f"{str(tensor.dtype).removeprefix('torch.')} [{', '.join(map(str, tensor.shape))}]"
        assert plain(value) == tensor.numpy().tobytes()
    moment = saved["optimizer"]["state"][0]["exp_avg"]
    assert plain(found.values["optimizer.state.0.exp_avg"]) == moment.numpy().tobytes()
    assert plain(found.values["generators.torch"]) == saved["generators"]["torch"].numpy().tobytes()
    assert plain(found.values["generators.numpy[1]"]) == np.random.get_state()[1].tobytes()
    assert (found.values["epoch"], found.values["best"]) == (3, 0.25)
    assert found.values["optimizer.param_groups[0].betas[1]"] == 0.999


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).reshape(3, 4).t(),
        torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
        torch.arange(20.0)[3:17:3],
        torch.arange(3.0).expand(4, 3),
        torch.arange(30.0).reshape(5, 6)[1:4, 2:5],
        torch.tensor(7.5),
        torch.empty(0, 3),
        torch.ones(2, 2, dtype=torch.bfloat16).t(),
        torch.tensor([1 + 2j, 3 - 1j]),
        torch.nn.Parameter(torch.ones(3)),
        torch.tensor([True, False]),
    ],
    ids=str,
)
# Breaks if a view is read as if it lay row by row, or from the beginning of its storage.
def test_views_of_torch(tmp_path: Path, tensor: torch.Tensor) -> None:
    torch.save({"x": tensor}, tmp_path / "x")
    value = read(tmp_path / "x").values["x"]
    assert isinstance(value, Tensor)
    assert value.shape == tuple(tensor.shape)
    assert plain(value) == tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


# Breaks if a tensor in a plain pickle is known only by its storage, whose key is an address that differs in each run.
def test_a_tensor_in_a_plain_pickle(tmp_path: Path) -> None:
    tensor = torch.arange(6.0).reshape(2, 3)
    (tmp_path / "a.pt").write_bytes(pickle.dumps({"w": tensor, "n": 1}))
    found = read(tmp_path / "a.pt")
    assert found.form == "pickle"
    assert plain(found.values["w"]) == tensor.numpy().tobytes()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
# Breaks if a protocol of pickle, an array of NumPy, or an object of any class is not understood.
def test_plain_pickles(tmp_path: Path, protocol: int) -> None:
    value = {
        "array": np.arange(6, dtype=">i4").reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "number": np.float64(2.5),
        "ordered": OrderedDict([("a", 1)]),
        "queue": deque([1, 2], maxlen=3),
        "bytes": b"abc",
        "set": {3, 1, 2},
        "path": Path("x/y"),
        "long": 1 << 80,
        7: (None, True, -1.5, "text"),
    }
    (tmp_path / "x.json").write_bytes(pickle.dumps(value, protocol))
    found = read(tmp_path / "x.json")
    assert (found.form, found.note) == ("pickle", "")
    assert plain(found.values["array"]) == np.arange(6, dtype="<i4").tobytes()
    assert plain(found.values["fortran"]) == np.arange(6.0).tobytes()
    assert found.values["number"] == 2.5
    assert found.values["ordered.a"] == 1
    assert [found.values[f"queue.(items)[{n}]"] for n in (0, 1)] == [1, 2]
    assert isinstance(raw := found.values["bytes"], Raw)
    assert raw.source.read(0, 9) == b"abc"
    assert [found.values[f"set[{n}]"] for n in range(3)] == [1, 2, 3]
    assert [found.values[f"7[{n}]"] for n in range(4)] == [None, True, -1.5, "text"]


# Breaks if the arrays between the operations of a pickle of joblib are not found, so that a model is compared as bytes.
def test_a_file_of_joblib(tmp_path: Path) -> None:
    (tmp_path / "model.joblib").write_bytes(JOBLIB)
    found = read(tmp_path / "model.joblib")
    assert (found.form, found.note) == ("pickle", "")
    assert plain(found.values["w"]) == np.arange(6.0).tobytes()
    assert [found.values[f"o[{n}]"] for n in (0, 1)] == ["a", None]
    assert isinstance(records := found.values["r"], Tensor)
    assert records.source.read(0, 99) == np.array([(1, 2.5)], dtype=[("n", "i1"), ("x", "f8")]).tobytes()
    assert found.values["step"] == 3


# Breaks if a tensor of safetensors, or what the file says of itself, is lost.
def test_safetensors(tmp_path: Path) -> None:
    tensors = {"a": torch.ones(2, 3, dtype=torch.bfloat16), "b.c": torch.arange(4)}
    safetensors.torch.save_file(tensors, tmp_path / "a", metadata={"format": "pt"})
    found = read(tmp_path / "a")
    assert found.form == "safetensors"
    assert found.values.keys() == {"a", "b.c", "(metadata).format"}
    assert plain(found.values["b.c"]) == tensors["b.c"].numpy().tobytes()


@pytest.mark.parametrize("packed", [True, False])
# Breaks if arrays of NumPy are not read from npz, packed or not, or if only the first of several in a file is.
def test_arrays_of_numpy(tmp_path: Path, packed: bool) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(["x", "yz"]), "c": np.array(3)}
    (np.savez_compressed if packed else np.savez)(tmp_path / "x.npz", **arrays)
    found = read(tmp_path / "x.npz")
    assert found.form == "NumPy archive"
    assert found.values.keys() == arrays.keys()
    assert plain(found.values["a"]) == arrays["a"].tobytes()
    with (tmp_path / "two").open("wb") as file:
        np.save(file, arrays["a"])
        np.save(file, arrays["c"])
    two = read(tmp_path / "two")
    assert (two.form, "more than one array" in two.note) == ("bytes", True)


def read_text(folder: Path, text: str) -> Contents:
    (folder / "x").write_text(text)
    return read(folder / "x")


# Breaks if a document, lines of documents, a table or other text is taken for another one of these.
def test_texts(tmp_path: Path) -> None:
    history = {"log_history": [{"loss": 0.5}, {"loss": 0.25, "step": 2}], "epoch": 1}
    found = read_text(tmp_path, json.dumps(history, indent=2))
    assert (found.form, found.values["log_history[1].loss"], found.values["epoch"]) == ("JSON", 0.25, 1)
    rows = "".join(json.dumps({"step": step, "loss": 1 / step}) + "\n" for step in (1, 2))
    found = read_text(tmp_path, rows)
    assert (found.form, found.values["[1].loss"]) == ("JSON lines", 0.5)
    with (tmp_path / "x.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["step", "loss"], [1, 0.5], [2, "nan"]])
    found = read(tmp_path / "x.csv")
    assert (found.form, found.values["[0].loss"]) == ("CSV", 0.5)
    found = read_text(tmp_path, "a\nb, c\n")
    assert (found.form, found.values) == ("text", {"line 1": "a", "line 2": "b, c"})
    assert read_text(tmp_path, "").values == {}


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED])
# Breaks if an archive with a damaged entry counts as a file that cannot be read: its bytes can be compared.
def test_a_damaged_entry(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "x", "w", method) as packed:
        packed.writestr("a", random.Random(1).randbytes(1000))
    data = bytearray((tmp_path / "x").read_bytes())
    data[40:200] = bytes(160)
    (tmp_path / "x").write_bytes(data)
    found = read(tmp_path / "x")
    assert (found.form, "not a whole archive" in found.note) == ("bytes", True)


# Breaks if the code in an archive of TorchScript, which lies beside the pickle, is not compared.
def test_other_entries_of_an_archive_of_torch(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "x")
    with zipfile.ZipFile(tmp_path / "x", "a") as archive:
        archive.writestr("x/code/a.py", "pass")
    assert {"a", "x/code/a.py"} == read(tmp_path / "x").values.keys()


# Breaks if what is not understood is left out instead of compared as bytes, or if no note says so.
def test_other_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x93NUMPY damaged")
    found = read(tmp_path / "x")
    assert found.form == "bytes"
    assert "begins like a NumPy array" in found.note
    (tmp_path / "y").write_bytes(bytes(range(256)))
    assert read(tmp_path / "y").values.keys() == {ALL}


# Breaks if more values than are compared one by one hide a difference behind them.
def test_too_many_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MOST_VALUES", 1000)
    found = read_text(tmp_path, json.dumps([{"a": 1}] * 1001))
    assert "only the first 1,000 values" in found.note
    assert isinstance(found.values[ALL], Raw)
