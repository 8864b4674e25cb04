"""One variant of a model in a process of its own: `python -P worker.py RUNTIME FILE INPUT,... OUTPUT,...`.

A runtime that aborts ends this process and not the program that uses the model. It imports only the runtime: a package
is tested as a machine without torch uses it.

Standard input and output carry frames: the length of a JSON head and that of the arrays (8 bytes each, little-endian),
the head `{"arrays": [[name, dtype, shape], ...]}` or `{"error": text}`, and the bytes of the arrays, one after another.
"""

import contextlib
import json
import math
import os
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np

MOST_HEAD = 1 << 20
MOST_BODY = 1 << 36
Run = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def send(file: IO[bytes], arrays: Mapping[str, Any] | None = None, error: str = "") -> None:
    """Write one frame."""
    laid = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    said: dict[str, Any] = {"error": error} if error else {}
    said["arrays"] = [[name, laid[name].dtype.name, list(array.shape)] for name, array in (arrays or {}).items()]
    head = json.dumps(said).encode()
    file.write(struct.pack("<QQ", len(head), sum(array.nbytes for array in laid.values())) + head)
    for array in laid.values():
        file.write(array.reshape(-1).view(np.uint8).data)
    file.flush()


def receive(file: IO[bytes]) -> tuple[dict[str, Any], str]:
    """Read one frame: arrays and the error. EOFError at the end; ValueError if the frame contradicts itself."""
    length, size = struct.unpack("<QQ", _read(file, 16))
    if length > MOST_HEAD or size > MOST_BODY:
        raise ValueError(f"a frame has a head of {length} bytes and {size} bytes of arrays, which is too much")
    text, body, at = _read(file, length), memoryview(_read(file, size)), 0
    arrays = {}
    try:
        head = json.loads(text)
        for name, dtype, shape in head.get("arrays", ()):
            end = at + np.dtype(dtype).itemsize * math.prod(shape)
            arrays[name] = np.frombuffer(body[at:end], dtype).reshape(shape)
            at = end
        return arrays, str(head.get("error", ""))
    except (
        AttributeError,
        TypeError,
        OverflowError,
        RecursionError,
    ) as error:  # the worker of a --run command may send anything
        raise ValueError(f"the head of a frame is not {{arrays, error}}: {error}") from error


def _read(file: IO[bytes], size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = file.read(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def open_onnx(path: str, _inputs: Sequence[str], outputs: Sequence[str]) -> Run:
    """A model of ONNX on the CPU."""
    import onnxruntime  # noqa: PLC0415 - only the runtime of this variant

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda arrays: dict(zip(outputs, session.run(list(outputs), dict(arrays)), strict=True))


def open_pt2(path: str, inputs: Sequence[str], outputs: Sequence[str]) -> Run:
    """A program of torch.export on the CPU."""
    import torch  # noqa: PLC0415 - only the runtime of this variant

    with _without_pickle():
        module = torch.export.load(path).module()

    def run(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        with torch.no_grad():
            made = module(*(torch.from_numpy(arrays[name].copy()) for name in inputs))
        parts = [made[name] for name in outputs] if isinstance(made, Mapping) else made
        listed = [parts] if isinstance(parts, torch.Tensor) else list(parts)
        return {name: part.numpy() for name, part in zip(outputs, listed, strict=True)}

    return run


@contextlib.contextmanager
def _without_pickle() -> Iterator[None]:
    """Inside, torch.load refuses pickles: torch.export.load falls back to them, and has no option against it."""
    names = ("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    try:
        yield
    finally:
        del os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"]
        os.environ.update(before)


RUNTIMES: dict[str, tuple[str, Callable[[str, Sequence[str], Sequence[str]], Run]]] = {
    "onnxruntime": ("onnxruntime", open_onnx),
    "torch": ("torch", open_pt2),
}
"""Name -> the module that has to be installed, and what opens a file."""


def main(argv: Sequence[str]) -> None:
    """Answer calls until standard input ends. The first frame says that the model is loaded."""
    runtime, path, inputs, outputs = argv
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a runtime prints must not stand between the frames
    try:
        run = RUNTIMES[runtime][1](path, inputs.split(","), outputs.split(","))
    except Exception as error:  # noqa: BLE001 - the caller gets every error of the runtime about its file
        send(answers, error=f"{type(error).__name__}: {error}"[:2000])
        return
    send(answers)
    while True:
        try:
            arrays, _ = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            send(answers, run(arrays))
        except Exception as error:  # noqa: BLE001 - the caller gets every error of the runtime about a call
            send(answers, error=f"{type(error).__name__}: {error}"[:2000])


if __name__ == "__main__":
    main(sys.argv[1:])
