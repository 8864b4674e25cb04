"""The command holdfast-train: checkpoints in other formats.

What it does with models and data, such as `package` and `evaluate`, is in holdfast-model: entry points of the group
GROUP, each a function that gets `commands` and `storage` as `_add_export` does.
"""

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from holdfast_train.errors import CommandCode, HoldfastTrainError, StateError
from holdfast_train.exchange.exporting import FORMATS, Format, export
from holdfast_train.exchange.importing import import_checkpoint, open_source
from holdfast_train.exchange.lines import say, show
from holdfast_train.exchange.progress_bar import ProgressBar, format_size
from holdfast_train.exchange.s3_options import add_s3_options, s3_options
from holdfast_train.restore.source import open_address
from holdfast_train.storage.retrying import PATIENCE_SECONDS

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
EXPORT: Final = """\
Write a checkpoint to files that other programs can read.

examples:
  holdfast-train export s3://runs/vision/vit-faces weights --only model
  holdfast-train export s3://runs/vision/vit-faces/manifests/000000048000-a4-d07a4418b95e.json faces.pt
  holdfast-train export s3://runs/vision/vit-faces checkpoint --format dcp --endpoint https://minio.example:9000
  holdfast-train export /mnt/runs/vit-faces faces.safetensors --only model
"""
IMPORT: Final = """\
Make a checkpoint from files of other programs. A new job starts from it with `checkpoint.resume: PREFIX`, and saves
under another prefix of its own.

examples:
  holdfast-train import llama/model.safetensors.index.json --to s3://runs/imported/llama
  holdfast-train import checkpoint.pt --to /mnt/runs/imported/faces --step 48000
"""
FILES: Final = """\
formats of files:
  safetensors   tensors, which most programs can read; other values are in a description for holdfast-train import
  dcp           a folder of torch.distributed.checkpoint
  torch         a file of torch.save; it is read with weights_only=True

sizes: the command prints KiB, MiB and GiB (1024 bytes and its powers).

exit codes: 0 done, 1 failed, 2 wrong command line, 3 no answer, 4 not found, 5 not allowed"""


def size(text: str) -> int:
    """`5GB` in bytes. ArgumentTypeError if it is not a size."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?i?[bB]?)", text)
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None or float(found[1]) * unit < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; allowed: a number with MB, GB, MiB or GiB, as 5GB")
    return int(float(found[1]) * unit)


def step(text: str) -> int:
    """`48000` as a number. ArgumentTypeError if it is not a step."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a step; allowed: a whole number from 0 on, as 48000")
    return int(text)


def local(text: str) -> Path:
    """A path on this machine. ArgumentTypeError if it is the address of a storage."""
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "file":
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a path on this machine; use another program to copy files from or to {scheme}"
        )
    return Path(rest if separator else text).expanduser().absolute()


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="holdfast-train",
        description="Export and import checkpoints, make and evaluate packages of models, look at data sets, and "
        "estimate memory.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    storage = argparse.ArgumentParser(add_help=False)
    add_s3_options(storage)
    _add_export(commands, storage)
    _add_import(commands, storage)
    installed = entry_points(group=GROUP)
    for name in OF_MODELS:
        if name in installed.names:
            installed[name].load()(commands, storage)
        else:
            commands.add_parser(name, help=f"needs holdfast-model: {INSTALL}", add_help=False)
    return parser


def _add_export(commands: "Commands", storage: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "export", parents=[storage], formatter_class=argparse.RawDescriptionHelpFormatter,
        description=EXPORT, epilog=FILES,
        help="write a checkpoint as safetensors, torch.distributed.checkpoint or torch.save",
    )  # fmt: skip
    parser.add_argument("checkpoint", metavar="CHECKPOINT",
        help="a manifest, or a prefix for its newest intact checkpoint: s3://, file://, or a path")  # fmt: skip
    parser.add_argument("destination", metavar="DEST", type=local,
        help="the new folder, or the new file (torch; *.safetensors)")  # fmt: skip
    parser.add_argument("--format", choices=FORMATS,
        help="default: torch if DEST ends in .pt or .pth, otherwise safetensors")  # fmt: skip
    parser.add_argument("--only", metavar="NAME", action="append",
        help="export only this dotted name, such as model or model.layers.0; may be repeated")  # fmt: skip
    parser.add_argument("--max-shard-size", metavar="SIZE", type=size, default=size("5GB"),
        help="largest safetensors file; more data goes into several files with an index "
        "(default: 5GB, as in Hugging Face Transformers; GB is 10^9 bytes, GiB 2^30)")  # fmt: skip
    parser.set_defaults(work=_export)


def _add_import(commands: "Commands", storage: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "import", parents=[storage], formatter_class=argparse.RawDescriptionHelpFormatter,
        description=IMPORT, epilog=FILES,
        help="make a checkpoint from such files, from which a job can start",
    )  # fmt: skip
    parser.add_argument("source", metavar="SOURCE", type=local, help="a file, an index of safetensors, or a folder")
    parser.add_argument("--to", metavar="PREFIX", required=True, help="an unused prefix: s3://, file://, or a path")
    parser.add_argument(
        "--step", metavar="N", type=step, help="step of the checkpoint (default: that of an export, or 0)"
    )
    parser.add_argument("--name", metavar="NAME", help="name of the object in Run (default: model)")
    parser.set_defaults(work=_import)


def _export(options: argparse.Namespace) -> None:
    storage, name = open_address(options.checkpoint, **s3_options(options))
    form: Format = options.format or ("torch" if options.destination.suffix in (".pt", ".pth") else "safetensors")
    with storage.within(PATIENCE_SECONDS), ProgressBar("exporting") as bar:
        done = export(
            storage, name, options.destination, form,
            only=options.only, max_shard_size=options.max_shard_size, begin=bar.begin,
        )  # fmt: skip
    content, description = done.content, done.content.description
    show(f"{done.uri}")
    show(f"step {description.step:,}: {_count(len(content.tensors), 'tensor')}, {format_size(content.size)}")
    for file in done.files:
        show(f"  {file}  {format_size(file.stat().st_size)}")
    if form == "safetensors" and description.tied:
        tied = ", ".join(f"{name} (is {kept})" for name, kept in description.tied.items())
        show(f"tied, and written once: {tied}")
    if form == "safetensors" and done.values:
        show(f"{_count(len(done.values), 'value')} beside tensors: only holdfast-train import reads them")


def _import(options: argparse.Namespace) -> None:
    storage, name = open_address(options.to, **s3_options(options))
    if name is not None:
        raise StateError(f"--to {options.to} is a checkpoint; name an unused prefix")
    with open_source(options.source, options.name) as source, ProgressBar("importing") as bar:
        number = options.step if options.step is not None else source.step or 0
        saved = import_checkpoint(storage, source, number, bar.begin)
        names = ", ".join(source.objects)
    show(f"{saved.uri}")
    show(f"step {number:,} from {source.form}: {names}, {format_size(saved.size)}")
    if options.step is None and source.step is None:
        show(f"{options.source} does not say its step, so it is step 0; use --step to say another")
    show(f"a new job starts from it with checkpoint.resume: {storage.uri}")


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


GROUP: Final = "holdfast_train.commands"
OF_MODELS: Final = ("package", "test-package", "evaluate", "data", "estimate")
INSTALL: Final = "pip install holdfast-model"
EXTRAS: Final = {
    "PIL": "evaluate", "pyarrow": "parquet", "package": "package", "test-package": "package", "evaluate": "evaluate",
}  # fmt: skip
"""Module that is missing, or command -> the extra of holdfast-model that has what it needs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Return the exit code, as in docs/reference/exit-codes.md."""
    name = next(iter(sys.argv[1:] if argv is None else argv), "")
    if name in OF_MODELS and not entry_points(group=GROUP, name=name):
        say(f"holdfast-train {name}: it is a command of holdfast-model, which is not installed: {INSTALL}")
        return CommandCode.FAILED
    options = make_parser().parse_args(argv)
    try:
        with _cleaning_up():
            return options.work(options) or CommandCode.OK
    except HoldfastTrainError as error:
        say(f"holdfast-train {options.command}: {error}")
        return error.command_code
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        extra = EXTRAS.get(missing) or EXTRAS.get(options.command)
        whose = f"holdfast-model with its extra `{extra}`" if extra else "holdfast-train with its extra `torch`"
        say(f"holdfast-train {options.command}: {error}; install {whose}")
        return CommandCode.FAILED
    except BrokenPipeError:  # the reader of a pipe, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere at the exit
        return CommandCode.FAILED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say(f"holdfast-train {options.command}: {where}{error.strerror or error}")
        return CommandCode.FAILED
    except KeyboardInterrupt:
        return CommandCode.INTERRUPTED


class _Terminated(BaseException):
    """SIGTERM arrived."""


@contextmanager
def _cleaning_up() -> Iterator[None]:
    """SIGTERM ends the process as it would do anyway, but half-made folders are removed before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
