"""The commands of packages: `holdfast-train package` and `holdfast-train test-package`.

They import packages when they run: numpy and torch are extras, and the other commands have messages without them.
"""

import argparse
import hashlib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.errors import CommandCode
from holdfast_train.restore.load import fill_model
from holdfast_train.restore.source import open_address, read_newest_intact
from holdfast_train.storage.retrying import PATIENCE_SECONDS

if TYPE_CHECKING:
    from torch import nn

    from holdfast_train.package.build import Origin
    from holdfast_train.package.problem import Problem

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["COMMANDS", "add_package", "add_test"]

PACKAGE: Final = """\
Make a package of a trained model: one folder with its weights, ONNX files in three precisions and a program of
torch.export. Each is run in a process of its own on test inputs. A variant whose outputs are wrong is left out and
named, and the exit code is 1.

examples:
  holdfast-train package s3://runs/vision/vit-faces vit-faces --problem train:problem
  holdfast-train package /mnt/runs/vit-faces vit-faces --problem train:problem --variant onnx --variant onnx-int8
  holdfast-train package s3://runs/vision/vit-faces vit-faces --problem train:problem --fix batch=1
"""
TEST: Final = """\
Test a package where it is used: the hashes of all files, and the outputs of each variant whose runtime is installed
here. It needs no torch. A program of torch.export (pt2) may contain code that runs when it is opened, so it is tested
only with --run-code.

examples:
  holdfast-train test-package vit-faces
  holdfast-train test-package vit-faces --run-code
"""


def fixed_size(text: str) -> tuple[str, int]:
    """`batch=1` as a pair. ArgumentTypeError if it is not a symbol with a size."""
    symbol, separator, size = text.partition("=")
    if not separator or not symbol or not size.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a symbol with its size; allowed: as batch=1")
    return symbol, int(size)


def add_package(commands: "Commands", storage: argparse.ArgumentParser) -> None:
    """The options of `holdfast-train package`. `storage`: those of every command that opens a storage."""
    parser = commands.add_parser(
        "package", parents=[storage], formatter_class=argparse.RawDescriptionHelpFormatter, description=PACKAGE,
        help="make a tested package of a trained model: weights, ONNX, torch.export",
    )  # fmt: skip
    parser.add_argument("checkpoint", metavar="CHECKPOINT",
        help="a manifest, or a prefix for its newest intact checkpoint: s3://, file://, or a path")  # fmt: skip
    parser.add_argument("folder", metavar="FOLDER", type=lambda text: Path(text).expanduser().absolute(),
        help="the new folder; its name is that of the package")  # fmt: skip
    parser.add_argument("--problem", metavar="MODULE:FUNCTION", required=True,
        help="a function of your program that returns a holdfast_train.package.Problem")  # fmt: skip
    parser.add_argument("--argument", metavar="TEXT", action="append", default=[],
        help="an argument for this function; may be repeated")  # fmt: skip
    parser.add_argument("--name", metavar="NAME", default="model",
        help="dotted name of the model in the checkpoint (default: model)")  # fmt: skip
    parser.add_argument("--variant", metavar="NAME", action="append",
        help="make only this variant: safetensors, pt2, onnx, onnx-fixed, onnx-fp16 or onnx-int8; may be repeated "
        "(default: all)")  # fmt: skip
    parser.add_argument("--fix", metavar="SYMBOL=SIZE", type=fixed_size, action="append", default=[],
        help="also make onnx-fixed, in which this symbol has one size, for compilers of chips; may be "
        "repeated")  # fmt: skip
    parser.add_argument("--keep-failed", action="store_true",
        help="leave variants that failed their test in the package, marked as failed")  # fmt: skip


def add_test(commands: "Commands") -> None:
    """The options of `holdfast-train test-package`."""
    parser = commands.add_parser(
        "test-package", formatter_class=argparse.RawDescriptionHelpFormatter, description=TEST,
        help="test a package on this machine",
    )  # fmt: skip
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a folder with package.json")
    parser.add_argument("--run-code", action="store_true",
        help="also test pt2, whose file may contain code: only for packages of people you trust")  # fmt: skip


def _package(options: argparse.Namespace) -> CommandCode:
    from holdfast_train.package import PackageError  # noqa: PLC0415 - see above
    from holdfast_train.package.build import build  # noqa: PLC0415

    problem = _problem(options.problem, options.argument)
    storage, name = open_address(options.checkpoint, endpoint=options.endpoint, region=options.region)
    module = problem.model()
    if options.folder.exists():
        raise PackageError(f"{options.folder} exists already: use another name, or remove it first")

    def read(found: Found) -> "Origin":
        fill_model(module, storage, found, options.name)
        return _origin(found)

    with storage.within(PATIENCE_SECONDS):
        _, origin = read_newest_intact(storage, name, read)
    built = build(
        problem, _whole(module), origin, options.folder,
        variants=options.variant, fixed=dict(options.fix), keep_failed=options.keep_failed, progress=_say,
    )  # fmt: skip
    _print(f"{options.folder}")
    _print(f"step {origin.step:,} of {origin.manifest}")
    for variant, entry in built.package.variants.items():
        tested = entry["tested"]
        figures = [f"{key} {tested[key]}" for key in ("largest", "agreement", "score") if key in tested]
        _print(f"  {variant:<12} {'passed' if tested['passed'] else 'FAILED'}  {', '.join(figures)}".rstrip())
    for variant, why in built.failed.items():
        sys.stderr.write(f"holdfast-train package: {variant} did not pass: {why}\n")
    return CommandCode.FAILED if built.failed else CommandCode.OK


def _origin(found: Found) -> "Origin":
    from holdfast_train.package.build import Origin  # noqa: PLC0415

    manifest = found.manifest
    return Origin(
        manifest.job_uid, manifest.step, found.uri, hashlib.sha256(found.data).hexdigest(),
        dict(manifest.metrics), manifest.program.get("revision", ""),
    )  # fmt: skip


def _whole(module: "nn.Module") -> "nn.Module":
    """ProblemError if a tensor of the model has no values."""
    from holdfast_train.package import ProblemError  # noqa: PLC0415

    if empty := [name for name, tensor in module.state_dict().items() if tensor.is_meta]:
        raise ProblemError(
            f"{empty[0]} of the model is on the meta device and not in the checkpoint; fill it in model()"
        )
    return module


def _problem(place: str, arguments: list[str]) -> "Problem":
    """What a function of the user's program returns. ProblemError says what is wrong with `--problem`."""
    from holdfast_train.package import Problem, ProblemError  # noqa: PLC0415

    module, separator, function = place.partition(":")
    if not separator or not module or not function:
        raise ProblemError(f"--problem {place!r} is not a function; allowed: MODULE:FUNCTION, as train:problem")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` does
    try:
        found: Callable[..., object] = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise ProblemError(f"--problem {place}: there is no module {module!r} here or on PYTHONPATH") from error
    except AttributeError as error:
        raise ProblemError(f"--problem {place}: the module has no {function!r}") from error
    problem = found(*arguments)
    if not isinstance(problem, Problem):
        kind = type(problem).__name__
        raise ProblemError(f"--problem {place} returns a {kind}; it has to return a holdfast_train.package.Problem")
    return problem


def _test(options: argparse.Namespace) -> CommandCode:
    from holdfast_train.package.retest import retest  # noqa: PLC0415

    found = retest(options.folder, _say, run_code=options.run_code)
    bad = False
    for variant, result in found.items():
        if isinstance(result, str):
            _print(f"{variant:<12} {result}")
            continue
        bad = bad or not result.passed
        figures = "" if result.largest is None else f"largest difference {result.largest:.2g}"
        _print(f"{variant:<12} {'passed' if result.passed else 'FAILED'}  {result.why or figures}".rstrip())
    return CommandCode.FAILED if bad else CommandCode.OK


def _say(text: str) -> None:
    sys.stderr.write(f"{text} ...\n")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


COMMANDS: Final[dict[str, Callable[[argparse.Namespace], CommandCode]]] = {"package": _package, "test-package": _test}
