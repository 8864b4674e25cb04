"""The commands of packages: `holdfast-train package` and `holdfast-train test-package`.

They import packages when they run: numpy and torch are extras, and the other commands have messages without them.
"""

import argparse
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast_model.commands.user_function import user_problem
from holdfast_model.pages.document import check_writable
from holdfast_model.user_code import called
from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.errors import CommandCode
from holdfast_train.exchange.lines import say, show
from holdfast_train.exchange.s3_options import s3_options
from holdfast_train.restore.load import fill_model
from holdfast_train.restore.source import open_address, read_newest_intact
from holdfast_train.storage.retrying import PATIENCE_SECONDS, RetryingStorage

if TYPE_CHECKING:
    from torch import nn

    from holdfast_model.package.problem import Problem
    from holdfast_model.package.record import Origin

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

PACKAGE: Final = """\
Make a package of a trained model: one folder with its weights, ONNX files in three precisions and a program of
torch.export. Each is run in a process of its own on test inputs. A variant whose outputs are wrong is left out and
named, and the exit code is 1.

DEST is a new folder, or the address of a storage. To a storage the package is copied when it is made, package.json
last. If a package of the same checkpoint is there already, nothing is done.

examples:
  holdfast-train package s3://runs/vision/vit-faces vit-faces --problem train:problem
  holdfast-train package /mnt/runs/vit-faces vit-faces --problem train:problem --variant onnx --variant onnx-int8
  holdfast-train package s3://runs/vision/vit-faces vit-faces --problem train:problem --fix batch=1
  holdfast-train package s3://runs/vision/vit-faces s3://runs/packages/vit-faces --problem train:problem
  holdfast-train package s3://runs/vision/vit-faces vit-faces --problem train:problem --fix batch=1 \\
    --convert 'tflite=/opt/tflite/bin/python to_tflite.py {pt2-fixed} {calibration} {out}'
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
    parser.add_argument("destination", metavar="DEST",
        help="the new folder, or an address such as s3://runs/vision/packages/vit-faces; the last part is the name of "
        "the package")  # fmt: skip
    parser.add_argument("--problem", metavar="MODULE:FUNCTION", required=True,
        help="a function of your program that returns a holdfast_model.package.Problem")  # fmt: skip
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
    parser.add_argument("--convert", metavar="NAME=COMMAND", action="append", default=[],
        help="also make the variant NAME with a command, which gets paths for {out}, and for what it names of {pt2}, "
        "{pt2-fixed}, {onnx}, {onnx-fixed}, {safetensors} and {calibration}; no shell; may be repeated")  # fmt: skip
    parser.add_argument("--run", metavar="NAME=COMMAND", action="append", default=[],
        help="test the variant NAME with this worker, which gets the path for {file} and speaks the frames of "
        "holdfast_model/package/worker.py; may be repeated")  # fmt: skip
    parser.add_argument("--keep-failed", action="store_true",
        help="leave variants that failed their test in the package, marked as failed")  # fmt: skip
    parser.set_defaults(work=_package)


def add_test(commands: "Commands", _storage: argparse.ArgumentParser) -> None:
    """The options of `holdfast-train test-package`."""
    parser = commands.add_parser(
        "test-package", formatter_class=argparse.RawDescriptionHelpFormatter, description=TEST,
        help="test a package on this machine",
    )  # fmt: skip
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a folder with package.json")
    parser.add_argument("--run-code", action="store_true",
        help="also test pt2, whose file may contain code: only for packages of people you trust")  # fmt: skip
    parser.set_defaults(work=_test)


def _package(options: argparse.Namespace) -> CommandCode:
    from holdfast_model.package.build import build, choose  # noqa: PLC0415 - see above
    from holdfast_model.package.convert import conversions  # noqa: PLC0415
    from holdfast_model.package.publish import check_free, publish, published  # noqa: PLC0415
    from holdfast_model.package.variants import VARIANTS  # noqa: PLC0415

    converted = conversions(options.convert, options.run, list(VARIANTS))
    known = _known() | {one.name for one in converted}
    problem = user_problem(options.problem, options.argument)
    storage, name = open_address(options.checkpoint, **s3_options(options))
    module = _model(problem)
    place, target = _destination(options)
    fixed = dict(options.fix)
    steps = _Steps(2 * len([*choose(problem, options.variant, fixed, converted), *converted]) + 3)

    def read(found: Found) -> "Origin":
        fill_model(module, storage, found, options.name)
        return _origin(found)

    steps.say("reading the checkpoint")
    with storage.within(PATIENCE_SECONDS):
        _, origin = read_newest_intact(storage, name, read)
    if target is not None:
        with target.within(PATIENCE_SECONDS):
            there = published(target)
            if there is not None and there["from"].get("sha256") == origin.sha256:
                show(f"{target.uri} is there already, from the same checkpoint")
                return _tell(there)
            check_free(target, known)
    with tempfile.TemporaryDirectory(prefix="holdfast-package-") as temporary:
        folder = place if target is None else Path(temporary) / place.name
        built = build(
            problem, _whole(module), origin, folder,
            variants=options.variant, fixed=fixed, converted=converted, keep_failed=options.keep_failed,
            progress=steps.say,
        )  # fmt: skip
        if target is not None:
            steps.say("copying the package")
            with target.within(PATIENCE_SECONDS):
                publish(folder, target, known)
    show(str(place) if target is None else target.uri)
    return _tell(built.package.document)


def _model(problem: "Problem") -> "nn.Module":
    """The module that the problem makes, without its weights. StateError or ProblemError if it returns something
    else."""
    from torch import nn  # noqa: PLC0415 - an extra

    from holdfast_model.package import ProblemError  # noqa: PLC0415 - see above

    module = called("model() of the problem", problem.model)
    if not isinstance(module, nn.Module):
        raise ProblemError(
            f"model() of the problem returns a {type(module).__name__}; it has to make a torch.nn.Module"
        )
    return module


def _destination(options: argparse.Namespace) -> tuple[Path, RetryingStorage | None]:
    """The path of the new folder, or the name of the package and the storage for it. PackageError if it exists."""
    from holdfast_model.package import PackageError  # noqa: PLC0415 - see above

    if "://" in options.destination:
        target, _ = open_address(options.destination, **s3_options(options))
        return Path(target.uri.rpartition("/")[2]), target
    place = Path(options.destination).expanduser().absolute()
    if os.path.lexists(place):
        raise PackageError(f"{place} exists already: use another name, or remove it first")
    check_writable(place.parent)
    return place, None


def _known() -> set[str]:
    """Files and folders that a package may have, besides package.json."""
    from holdfast_model.package.folder import REPORT, TESTS  # noqa: PLC0415 - see above
    from holdfast_model.package.variants import VARIANTS  # noqa: PLC0415

    return {TESTS, REPORT, "README.md", *(variant.model.split("/")[0] for variant in VARIANTS.values())}


def _tell(document: Mapping[str, Any]) -> CommandCode:
    """Print what is in a package; the exit code says whether a variant did not pass."""
    origin, failed = document["from"], document.get("failed", {})
    show(f"step {origin['step']:,} of {origin['manifest']}")
    for variant, entry in document["variants"].items():
        tested = entry["tested"] or {}
        result = "not tested" if not tested else "passed" if tested["passed"] else "FAILED"
        figures = [f"{key} {tested[key]}" for key in ("largest", "agreement", "score") if key in tested]
        show(f"  {variant:<12} {result}  {', '.join(figures)}".rstrip())
    for variant, why in failed.items():
        say(f"holdfast-train package: {variant} did not pass: {why}")
    return CommandCode.FAILED if failed else CommandCode.OK


class _Steps:
    """Says on standard error what is done now, with its number: `step 3 of 11: making onnx ...`."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def say(self, text: str) -> None:
        """The next step begins."""
        self._done = min(self._done + 1, self._total)
        _say(f"step {self._done} of {self._total}: {text}")


def _origin(found: Found) -> "Origin":
    from holdfast_model.package.record import Origin  # noqa: PLC0415

    manifest = found.manifest
    return Origin(
        manifest.job_uid, manifest.step, found.uri, hashlib.sha256(found.data).hexdigest(),
        dict(manifest.metrics), manifest.program.get("revision", ""),
    )  # fmt: skip


def _whole(module: "nn.Module") -> "nn.Module":
    """ProblemError if a tensor of the model has no values."""
    from holdfast_model.package import ProblemError  # noqa: PLC0415

    if empty := [name for name, tensor in module.state_dict().items() if tensor.is_meta]:
        raise ProblemError(
            f"{empty[0]} of the model is on the meta device and not in the checkpoint; fill it in model()"
        )
    return module


def _test(options: argparse.Namespace) -> CommandCode:
    from holdfast_model.package.package_tests import run_tests  # noqa: PLC0415

    found = run_tests(options.folder, _say, run_code=options.run_code)
    bad = False
    for variant, result in found.items():
        if isinstance(result, str):
            show(f"{variant:<12} {result}")
            continue
        bad = bad or not result.passed
        figures = "" if result.largest is None else f"largest difference {result.largest:.2g}"
        show(f"{variant:<12} {'passed' if result.passed else 'FAILED'}  {result.why or figures}".rstrip())
    return CommandCode.FAILED if bad else CommandCode.OK


def _say(text: str) -> None:
    say(f"{text} ...")
