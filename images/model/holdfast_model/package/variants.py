"""The forms in which a package has a model, and how each is made. Needs torch; ONNX needs the extra `package`."""

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from holdfast_model.package.convert import CALIBRATION, Conversion, filled, run_command
from holdfast_model.package.errors import PackageError, ProblemError
from holdfast_model.package.inputs_to_test import at_sizes
from holdfast_model.package.problem import Arrays, Problem, check
from holdfast_model.user_code import called

OPSET: Final = 20
FIXED: Final = "onnx-fixed"
STATIC_OPERATORS: Final = ("Conv", "MatMul", "Gemm")
"""With onnxruntime's default, all operators, a language model goes from 1.83 to 3.49 nats and still looks right."""


@dataclass(frozen=True)
class Source:
    """What variants are made of. `example`: a case in which no symbol is 1, since tracing takes 1 for a constant.

    `fixed`: symbols that have one size in the variant onnx-fixed.
    """

    problem: Problem
    module: nn.Module
    example: Arrays
    folder: Path
    fixed: Mapping[str, int]

    def arguments(self) -> tuple[torch.Tensor, ...]:
        """The example, in the order of the inputs."""
        return tuple(torch.from_numpy(self.example[name].copy()) for name in self.problem.inputs)

    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights, by the names that the problem gives them."""
        state = self.module.state_dict()
        return dict(self.problem.rename(state) if self.problem.rename else state)

    def calibration(self) -> list[Arrays]:
        """The calibration inputs of the problem. StateError or InputError if there are none, or others than inputs."""
        function = self.problem.calibration
        found: list[Arrays] = called("calibration() of the problem", lambda: list(function())) if function else []
        if not found:
            raise ProblemError("calibration() of the problem gives no inputs; give some that the model meets in use")
        for number, inputs in enumerate(found):
            check(f"calibration input {number}", inputs, self.problem.inputs, self.problem.dims)
        return found


@dataclass(frozen=True)
class Variant:
    """How one form is made. `make` writes `model`, a path in the package, and what belongs to it."""

    precision: str
    runtime: str
    model: str
    tolerance: float | None
    """Allowed: the largest difference over the largest output. None: the score decides."""
    make: Callable[[Source, Path], str]
    """Returns a note for people, which may be empty."""
    needs: str | None = None
    """Another variant that has to be there first."""


def call_of(problem: Problem, module: nn.Module) -> Callable[[Arrays], Arrays]:
    """The model in torch, which says what is right. ProblemError if it does not return what the problem says."""

    def run(inputs: Arrays) -> Arrays:
        with torch.no_grad():
            made = module(*(torch.from_numpy(np.array(inputs[name])) for name in problem.inputs))
        if isinstance(made, Mapping):
            if missing := [name for name in problem.outputs if name not in made]:
                raise ProblemError(f"the model returns {', '.join(made)}, and not the output {missing[0]!r}")
            parts: Sequence[Any] = [made[name] for name in problem.outputs]
        else:
            parts = [made] if isinstance(made, torch.Tensor) else list(made)
        if len(parts) != len(problem.outputs):
            raise ProblemError(
                f"the model returns {len(parts)} tensors, and the problem has {len(problem.outputs)} outputs"
            )
        return {name: part.numpy() for name, part in zip(problem.outputs, parts, strict=True)}

    return run


def tied_names(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """The names of tensors that another one shares its memory with, and the name of that one, which comes before."""
    seen: dict[tuple[int, torch.Size, tuple[int, ...], torch.dtype], str] = {}
    tied = {}
    for name, tensor in tensors.items():
        first = seen.setdefault((tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype), name)
        if first != name and tensor.numel():
            tied[name] = first
    return tied


def _safetensors(source: Source, file: Path) -> str:
    from safetensors.torch import save_file  # noqa: PLC0415 - an extra

    tensors = source.tensors()
    tied = tied_names(tensors)
    kept = {
        name: tensor.detach().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
        if name not in tied
    }
    save_file(kept, file, {"format": "pt"})
    for name, text in source.problem.files.items():
        (file.parent / name).parent.mkdir(parents=True, exist_ok=True)
        (file.parent / name).write_text(text, encoding="utf-8")
    return "tied, and written once: " + ", ".join(f"{a} (is {b})" for a, b in tied.items()) if tied else ""


def _dynamic(source: Source, fixed: Mapping[str, int]) -> tuple[dict[int, Any] | None, ...]:
    """For each input, which dimensions are symbols."""
    dims = {
        symbol: torch.export.Dim(symbol, min=least, max=most)
        for symbol, (least, most) in source.problem.dims.items()
        if least < most and symbol not in fixed
    }
    return tuple(
        {axis: dims[part] for axis, part in enumerate(tensor.shape) if isinstance(part, str) and part in dims} or None
        for tensor in source.problem.inputs.values()
    )


def _pt2(source: Source, file: Path) -> str:
    _write_pt2(source, file, {})
    return ""


def _write_pt2(source: Source, file: Path, fixed: Mapping[str, int]) -> None:
    with _quiet():
        program = torch.export.export(source.module, source.arguments(), dynamic_shapes=_dynamic(source, fixed))
        torch.export.save(program, file)


def _onnx(source: Source, file: Path) -> str:
    _write_onnx(source, file, {})
    return ""


def _write_onnx(source: Source, file: Path, fixed: Mapping[str, int]) -> None:
    with _quiet():
        made = torch.onnx.export(
            source.module, source.arguments(), dynamo=True, opset_version=OPSET, verbose=False,
            dynamic_shapes=_dynamic(source, fixed),
            input_names=list(source.problem.inputs), output_names=list(source.problem.outputs),
        )  # fmt: skip
        assert made is not None
        made.save(file)


def _onnx_fixed(source: Source, file: Path) -> str:
    _write_onnx(_at_fixed(source), file, source.fixed)
    return "fixed sizes: " + ", ".join(f"{symbol} = {size}" for symbol, size in source.fixed.items())


def _at_fixed(source: Source) -> Source:
    """With an example of the fixed sizes: what is not dynamic keeps the example's size."""
    return replace(source, example=at_sizes(source.problem, source.example, source.fixed))


def _onnx_fp16(source: Source, file: Path) -> str:
    import onnx  # noqa: PLC0415 - an extra
    from onnxruntime.transformers.float16 import convert_float_to_float16  # noqa: PLC0415

    model = onnx.load(source.folder / "onnx" / "model.onnx")
    with _quiet():
        onnx.save(convert_float_to_float16(model, keep_io_types=True), file)
    return ""


def _onnx_int8(source: Source, file: Path) -> str:
    from onnxruntime import quantization as q  # noqa: PLC0415 - an extra

    origin = source.folder / "onnx" / "model.onnx"
    with _quiet():
        # Weights have 7 bits: a processor without VNNI cuts the sum of two products of 8 bits at 16 bits.
        if source.problem.calibration is None:
            q.quantize_dynamic(origin, file, weight_type=q.QuantType.QInt8, reduce_range=True)
            return "dynamic, because the problem has no calibration data"
        data = source.calibration()
        q.quantize_static(
            origin, file, calibration_reader(data), per_channel=True, op_types_to_quantize=list(STATIC_OPERATORS),
            activation_type=q.QuantType.QInt8, weight_type=q.QuantType.QInt8, reduce_range=True,
        )  # fmt: skip
    return f"static, calibrated with {len(data)} inputs"


def calibration_reader(data: Sequence[Arrays]) -> Any:
    """Inputs as onnxruntime's quantization asks for them."""
    from onnxruntime.quantization import CalibrationDataReader  # noqa: PLC0415 - an extra

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = iter(data)

        def get_next(self) -> Any:
            found = next(self._left, None)
            return None if found is None else dict(found)

    return Reader()


def save_arrays(arrays: Arrays, file: Path) -> None:
    """Write a file of safetensors. PackageError if the disk is full: its library has an error of its own for it."""
    from safetensors import SafetensorError  # noqa: PLC0415 - an extra
    from safetensors.numpy import save_file  # noqa: PLC0415

    try:
        save_file(dict(arrays), file)
    except SafetensorError as error:
        raise PackageError(f"{file} cannot be written: {error}") from error


def make_by_command(one: Conversion, source: Source, file: Path) -> None:
    """Let a command write `file`, and what it wants beside it. PackageError says what it lacks, or how it failed."""
    with tempfile.TemporaryDirectory(prefix="holdfast-convert-") as temporary:
        folder = Path(temporary)
        values = {"out": str(file)}
        for place in one.places - values.keys():
            values[place] = str(_input_of(place, source, folder))
        run_command(filled(one.command, values), folder)
    if links := [path for path in file.parent.rglob("*") if path.is_symlink()]:
        raise PackageError(f"the command {one.command[0]} wrote the link {links[0].name}; a package has files only")
    if not file.is_file() or not file.stat().st_size:
        raise PackageError(f"the command {one.command[0]} did not write {{out}}, the file {one.model}")


def _input_of(place: str, source: Source, folder: Path) -> Path:
    """The file for a name in braces. Calibration data, and a program of fixed sizes, are written into `folder`."""
    if place in VARIANTS:
        found = source.folder / VARIANTS[place].model
        if not found.is_file():
            raise PackageError(f"it is made of {place}, which could not be made")
        return found
    if place == CALIBRATION:
        file = folder / "calibration.safetensors"
        arrays = {
            f"{number}/{name}": np.ascontiguousarray(array)
            for number, inputs in enumerate(source.calibration())
            for name, array in inputs.items()
        }
        save_arrays(arrays, file)
        return file
    file = folder / "model.pt2"
    try:
        _write_pt2(_at_fixed(source), file, source.fixed)
    except Exception as error:
        raise PackageError(f"it is made of {place}, which could not be made: {error}") from error
    return file


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters print and warn about their own insides; what counts is the test of what they made."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        nowhere = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


WEIGHTS: Final = "files"
VARIANTS: Final[Mapping[str, Variant]] = {
    "safetensors": Variant("float32", WEIGHTS, "safetensors/model.safetensors", 0.0, _safetensors),
    "pt2": Variant("float32", "torch", "pt2/model.pt2", 1e-4, _pt2),
    "onnx": Variant("float32", "onnxruntime", "onnx/model.onnx", 1e-4, _onnx),
    FIXED: Variant("float32", "onnxruntime", "onnx-fixed/model.onnx", 1e-4, _onnx_fixed),
    "onnx-fp16": Variant("float16", "onnxruntime", "onnx-fp16/model.onnx", 2e-2, _onnx_fp16, "onnx"),
    "onnx-int8": Variant("int8", "onnxruntime", "onnx-int8/model.onnx", None, _onnx_int8, "onnx"),
}
"""By name, in the order in which they are made."""
