"""Open a package: one call for every variant, with its inputs checked before the runtime sees them."""

import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

import numpy as np

from holdfast_model.package import convert, worker
from holdfast_model.package.document import CODE
from holdfast_model.package.errors import PackageError, WorkerError
from holdfast_model.package.folder import Opened, open_package, verify_variant
from holdfast_model.package.problem import Arrays, Call, Problem, Tensor, check

PREFERRED: Final = ("onnx", "onnx-fp16", "onnx-int8")
"""The most exact first."""
START_SECONDS: Final = 300.0


class Model:
    """A model that can be called: arrays by the names of the inputs in, by those of the outputs out.

        with load("vit-faces-48000") as model:
            logits = model({"images": images})["logits"]

    InputError if names, types or shapes are not those of the problem; WorkerError if the runtime refuses the call or
    its process ends. A call after that starts another process. Several threads may use one model; its process runs
    their calls one after another.
    """

    def __init__(
        self, package: Opened, variant: str, *, isolated: bool, seconds: float | None, command: Sequence[str] = ()
    ) -> None:
        """`command`: starts a worker that speaks the frames of worker.py; default: one with the variant's runtime."""
        self.inputs: Mapping[str, Tensor] = package.inputs
        self.outputs: Mapping[str, Tensor] = package.outputs
        self.variant = variant
        entry = package.variants[variant]
        self.dims = fixed_dims(package, entry)
        self._arguments = (
            str(entry["runtime"]), str(package.folder / entry["model"]), ",".join(self.inputs), ",".join(self.outputs),
        )  # fmt: skip
        self._command = command or (sys.executable, "-P", worker.__file__, *self._arguments)
        self._environment = convert.environment() if command else None
        self._seconds = seconds
        self._lock = threading.RLock()  # of the process: one is there, and it has one call
        self._worker: _Worker | None = None
        self._call: Call | None = None
        if isolated:
            self._worker = self._start()
        else:
            self._call = self._open()

    def _start(self) -> "_Worker":
        return _Worker(self._command, self._environment)

    def _open(self) -> Call:
        """The model in this process. WorkerError if its runtime refuses the file."""
        runtime, path, inputs, outputs = self._arguments
        try:
            return worker.RUNTIMES[runtime][1](path, inputs.split(","), outputs.split(","))
        except Exception as error:
            raise WorkerError(f"variant {self.variant}: {type(error).__name__}: {error}") from error

    def __call__(self, inputs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """Run the model once."""
        sizes = check("the call", inputs, self.inputs, self.dims)
        ordered = {name: inputs[name] for name in self.inputs}
        made = self._run(ordered)
        check("the answer of the model", made, self.outputs, self.dims, sizes)
        return dict(made)

    def _run(self, inputs: Arrays) -> Arrays:
        if self._call is not None:
            try:
                return self._call(inputs)
            except Exception as error:
                raise WorkerError(f"variant {self.variant}: {type(error).__name__}: {error}") from error
        with self._lock:
            if self._worker is None:
                self._worker = self._start()
            try:
                return self._worker.call(inputs, self._seconds)
            except WorkerError:
                if not self._worker.is_alive():
                    self.close()
                raise
            except BaseException:  # such as Ctrl-C: the answer of this call must not become that of the next one
                self._worker.kill()
                self.close()
                raise

    def close(self) -> None:
        """End the process. A later call starts another one."""
        with self._lock:
            if self._worker is not None:
                self._worker.close()
                self._worker = None

    def __enter__(self) -> "Model":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Worker:
    """A process that has one variant loaded. One call at a time."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None) -> None:
        self._late = ""  # why the process was killed
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        try:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
            )
        except OSError as error:
            self._log.close()
            raise WorkerError(f"the worker {command[0]} cannot be started: {error.strerror or error}") from error
        try:
            late = f"the model was not ready within {START_SECONDS:g} s: `isolated=False` has no such limit"
            with self._within(START_SECONDS, late):
                self._receive()
        except WorkerError:
            self.close()
            raise

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def call(self, inputs: Arrays, seconds: float | None) -> Arrays:
        """Send one call and take its answer. WorkerError if there is none within `seconds`."""
        assert self._process.stdin is not None
        late = f"no answer within {seconds or 0:g} s: give `seconds=` more, or a smaller batch"
        with self._within(seconds, late):
            try:
                worker.send(self._process.stdin, inputs)
            except OSError as error:
                raise WorkerError(self._why()) from error
            return self._receive()

    def _receive(self) -> Arrays:
        assert self._process.stdout is not None
        try:
            arrays, error = worker.receive(self._process.stdout)
        except (EOFError, OSError, ValueError) as problem:
            raise WorkerError(self._why()) from problem
        if error:
            raise WorkerError(error)
        return arrays

    @contextlib.contextmanager
    def _within(self, seconds: float | None, late: str) -> Iterator[None]:
        def end() -> None:
            self._late = late
            self._process.kill()

        timer = threading.Timer(seconds, end) if seconds else None
        if timer:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer:
                timer.cancel()

    def _why(self) -> str:
        """How the process ended, with its last line."""
        self._process.kill()
        code = self._process.wait()
        if self._late:
            return self._late
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 4096))
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        end = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the process of the model ended with {end}" + (f": {lines[-1]}" if lines else "")

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def load(
    folder: str | os.PathLike[str],
    variant: str | None = None,
    *,
    isolated: bool = True,
    seconds: float | None = None,
) -> Model:
    """Open one variant of the package in `folder`.

    `variant`: default: the most exact one that passed its test, whose runtime is installed, and whose files contain no
    code. A file of pt2 may contain code that runs when it is opened: ask for "pt2" only if you trust its maker.
    `isolated`: run it in a process of its own, so an abort of the runtime is an error and not the end of this program.
    `seconds`: a longer call is ended, with WorkerError.

    PackageError if there is no package or no such variant, or if a file is missing or has changed.
    """
    package = open_package(folder)
    chosen = variant or _best(package)
    entry = package.variants.get(chosen)
    if entry is None:
        raise PackageError(f"{package.folder} has no variant {chosen!r}; it has: {', '.join(package.variants)}")
    if not is_runnable(entry):
        raise PackageError(f"variant {chosen!r} does not run by itself: it is {entry['runtime']}; use the files")
    if not is_installed(entry):
        raise PackageError(f"variant {chosen!r} needs {entry['runtime']}, which is not installed here")
    verify_variant(package, chosen)
    return Model(package, chosen, isolated=isolated, seconds=seconds)


def _best(package: Opened) -> str:
    runnable = [
        name for name, entry in package.variants.items()
        if is_runnable(entry) and not may_run_code(entry) and entry["tested"]["passed"]
    ]  # fmt: skip
    order = [name for name in PREFERRED if name in runnable] + [name for name in runnable if name not in PREFERRED]
    for name in order:
        if is_installed(package.variants[name]):
            return name
    needed = sorted({str(package.variants[name]["runtime"]) for name in runnable})
    if not needed and any(may_run_code(entry) and entry["tested"]["passed"] for entry in package.variants.values()):
        raise PackageError(
            f"{package.folder} has only the variant {CODE[0]!r}, whose file may contain code; "
            f"if you trust its maker, ask for it: load(..., {CODE[0]!r})"
        )
    if not needed:
        raise PackageError(f"no variant of {package.folder} passed its test; make the package again")
    raise PackageError(f"no variant of {package.folder} can run here; install one of: {', '.join(needed)}")


def is_runnable(entry: Mapping[str, Any]) -> bool:
    """True if there is a runtime for this variant; weights alone have none."""
    return entry["runtime"] in worker.RUNTIMES


def may_run_code(entry: Mapping[str, Any]) -> bool:
    """True if opening a file of this variant may run code that the file contains."""
    return bool(entry["runtime"] == CODE[1])


def is_installed(entry: Mapping[str, Any]) -> bool:
    """True if the runtime of this variant can be imported."""
    return importlib.util.find_spec(worker.RUNTIMES[entry["runtime"]][0]) is not None


def fixed_dims(package: Opened, entry: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """The limits of each symbol in a variant, in which some may have one size."""
    return dict(package.dims) | {symbol: (size, size) for symbol, size in entry.get("fixed", {}).items()}


def placeholder(problem: Problem, seed: int = 0) -> Call:
    """A model that answers with random numbers of the right types and shapes, from the problem alone.

    Programs that use the model can be written and tested before it is trained.
    """
    draws = np.random.default_rng(seed)

    def run(inputs: Arrays) -> Arrays:
        sizes = check("the call", inputs, problem.inputs, problem.dims)
        made = {}
        for name, tensor in problem.outputs.items():
            shape = [sizes.get(part, problem.dims[part][0]) if isinstance(part, str) else part for part in tensor.shape]
            made[name] = (draws.standard_normal(shape) * 10).astype(tensor.dtype)
        return made

    return run
