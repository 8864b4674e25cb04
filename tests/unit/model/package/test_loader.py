"""Opening a package and calling its model, with the real onnxruntime in the process of the model."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast_model.package import InputError, PackageError, Problem, WorkerError, load, loader, placeholder

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def change(folder: Path, **keys: object) -> None:
    file = folder / "package.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | keys))


@pytest.mark.parametrize("isolated", [True, False])
def test_a_model_is_called(make: Callable[..., Path], isolated: bool) -> None:
    with load(make(), isolated=isolated) as model:
        assert model.variant == "onnx"
        assert np.array_equal(model({"x": X})["y"], 2 * X)
        with pytest.raises(InputError, match="x has the type float64"):
            model({"x": X.astype(np.float64)})
        assert np.array_equal(model({"x": X[:1]})["y"], 2 * X[:1])  # a refused call ends nothing


# Breaks if an abort of the runtime ends the program that uses the model, or if no other process takes over.
def test_a_process_that_dies_is_an_error_and_the_next_call_works(make: Callable[..., Path]) -> None:
    with load(make()) as model:
        assert model._worker is not None
        os.kill(model._worker._process.pid, signal.SIGABRT)
        with pytest.raises(WorkerError, match="the process of the model ended with signal 6"):
            model({"x": X})
        assert np.array_equal(model({"x": X})["y"], 2 * X)


# Breaks if Ctrl-C in a call, as in a notebook, lets the next call get the answer of the one before.
def test_an_interrupted_call_does_not_answer_the_next_one(
    make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with load(make()) as model:
        with monkeypatch.context() as patch:
            patch.setattr(loader.worker, "receive", interrupted)
            with pytest.raises(KeyboardInterrupt):
                model({"x": X})
        assert np.array_equal(model({"x": X + 1})["y"], 2 * (X + 1))


# Breaks if threads that lose their process together start one each, or get errors that are not of the model.
def test_threads_share_one_process(make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    start = loader._Worker.__init__

    def counted(self: loader._Worker, *arguments: Any) -> None:
        start(self, *arguments)
        started.append(self._process.pid)

    monkeypatch.setattr(loader._Worker, "__init__", counted)
    with load(make()) as model, ThreadPoolExecutor(8) as pool:
        os.kill(started[0], signal.SIGKILL)
        calls = [pool.submit(model, {"x": X}) for _ in range(64)]
        errors = [error for call in calls if (error := call.exception()) is not None]
        assert [type(error) for error in errors] == [WorkerError]
        assert len(started) == 2


def test_a_call_that_takes_too_long_is_ended(make: Callable[..., Path]) -> None:
    with load(make(), seconds=0.5) as model:
        assert model._worker is not None
        os.kill(model._worker._process.pid, signal.SIGSTOP)
        with pytest.raises(WorkerError, match=r"no answer within 0\.5 s: give `seconds=` more, or a smaller batch"):
            model({"x": X})


def test_a_model_that_is_never_ready_is_ended(make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "START_SECONDS", 0.001)
    with pytest.raises(WorkerError, match=r"the model was not ready within 0\.001 s: `isolated=False`"):
        load(make())


def test_one_changed_byte_is_found(make: Callable[..., Path]) -> None:
    folder = make()
    file = folder / "onnx" / "model.onnx"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(PackageError, match=r"model\.onnx has changed since the package was made"):
        load(folder)


def test_what_is_no_package_is_refused(make: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"is not a package: it has no package\.json"):
        load(tmp_path / "nothing")
    folder = make()
    (folder / "onnx" / "model.onnx").unlink()
    with pytest.raises(PackageError, match=r"lacks the file onnx/model\.onnx"):
        load(folder)
    with pytest.raises(PackageError, match="has no variant 'tflite'; it has: onnx"):
        load(folder, "tflite")
    change(folder, v=2)
    with pytest.raises(PackageError, match="has the version 2; this program reads version 1"):
        load(folder)
    (folder / "package.json").write_text('{"v": 1}')
    with pytest.raises(PackageError, match=r"package\.json is damaged"):
        load(folder)


# Breaks if a name in package.json can make a program read or hash a file outside of the package.
@pytest.mark.parametrize("name", ["../secret", "/etc/passwd"])
def test_a_file_outside_of_the_package_is_refused(make: Callable[..., Path], name: str) -> None:
    folder = make()
    entry = json.loads((folder / "package.json").read_text())["variants"]["onnx"]
    for variant in (entry | {"files": {name: {"bytes": 1, "sha256": ""}}}, entry | {"model": name}):
        change(folder, variants={"onnx": variant})
        with pytest.raises(PackageError, match="is outside of the package"):
            load(folder)


def test_a_variant_that_failed_is_not_chosen(make: Callable[..., Path]) -> None:
    folder = make()
    entry = json.loads((folder / "package.json").read_text())["variants"]["onnx"]
    change(folder, variants={"onnx": entry | {"tested": {"passed": False, "why": "wrong"}}})
    with pytest.raises(PackageError, match=r"no variant of .* passed its test"):
        load(folder)


@pytest.mark.parametrize("isolated", [True, False])
def test_a_file_that_is_no_model_is_said(make: Callable[..., Path], isolated: bool) -> None:
    folder = make(operator="NoSuchOperator")
    with pytest.raises(WorkerError, match="NoSuchOperator"):
        load(folder, isolated=isolated)


# Breaks if the loader imports torch: a machine that runs ONNX has none.
def test_a_model_runs_without_torch(make: Callable[..., Path]) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np; from holdfast_model.package import load\n"
        f"with load({str(make())!r}) as model: print(model({{'x': np.ones((1, 3), np.float32)}})['y'].sum())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("6.0\n", "")


def test_a_placeholder_answers_with_the_right_shapes(problem: Problem) -> None:
    model = placeholder(problem)
    made = model({"x": X})["y"]
    assert (made.shape, made.dtype.name) == ((2, 3), "float32")
    with pytest.raises(InputError):
        model({"x": X[:, :2]})
