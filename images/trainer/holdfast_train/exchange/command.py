"""holdfast-train: checkpoints out of Holdfast, and into it."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from holdfast_train.errors import HoldfastTrainError, StateError
from holdfast_train.exchange.exporting import FORMATS, Format, export
from holdfast_train.exchange.importing import into_storage, opened
from holdfast_train.exchange.progress_bar import Bar, size_of
from holdfast_train.restore.source import open_address

__all__ = ["main"]

INTERRUPTED: Final = 130
_UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
EXPORT: Final = """\
Write what a checkpoint holds to files that other programs read.

examples:
  holdfast-train export s3://runs/vision/vit-faces weights --only model
  holdfast-train export s3://runs/vision/vit-faces/manifests/000000048000-a4-d07a4418b95e.json faces.pt
  holdfast-train export s3://runs/vision/vit-faces checkpoint --format dcp --endpoint https://minio.example:9000
  holdfast-train export /mnt/runs/vit-faces faces.safetensors --only model
"""
IMPORT: Final = """\
Make a checkpoint of files that other programs wrote. A new job starts from it with `checkpoint.resume: PREFIX`,
and with a prefix of its own for what it saves.

examples:
  holdfast-train import llama/model.safetensors.index.json --to s3://runs/imported/llama
  holdfast-train import checkpoint.pt --to /mnt/runs/imported/faces --step 48000
"""
FILES: Final = """\
formats of files:
  safetensors   tensors only, read by most; by the description that is in it, holdfast-train import reads it all back
  dcp           a folder of torch.distributed.checkpoint
  torch         a file of torch.save; read with weights_only=True

exit codes: 0 done, 1 failed, 2 wrong command line, 75 try again later, 78 something has to be changed first"""


def size(text: str) -> int:
    """`5GB` in bytes. ArgumentTypeError if it is no size."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?i?[bB]?)", text)
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None or float(found[1]) * unit < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; allowed: a number with MB, GB, MiB or GiB, such as 5GB")
    return int(float(found[1]) * unit)


def local(text: str) -> Path:
    """A path of this machine. ArgumentTypeError for the address of a storage."""
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "file":
        raise argparse.ArgumentTypeError(
            f"{text!r} is no path of this machine; copy from or to {scheme} by other means"
        )
    return Path(rest if separator else text).expanduser().absolute()


def parser() -> argparse.ArgumentParser:
    """What may be typed."""
    found = argparse.ArgumentParser(prog="holdfast-train", description="Checkpoints out of Holdfast, and into it.")
    commands = found.add_subparsers(dest="command", required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter
    storage = argparse.ArgumentParser(add_help=False)
    where = storage.add_argument_group(
        "S3", "Keys come from the environment, a profile, or the identity of the machine."
    )
    where.add_argument("--endpoint", metavar="URL", help="address of the server (else $AWS_ENDPOINT_URL_S3, or AWS)")
    where.add_argument("--region", metavar="NAME", help="region of the bucket (else $AWS_REGION)")

    out = commands.add_parser(
        "export", parents=[storage], formatter_class=raw, description=EXPORT, epilog=FILES,
        help="write a checkpoint as safetensors, torch.distributed.checkpoint or torch.save",
    )  # fmt: skip
    out.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="a prefix (its newest that holds) or a manifest: s3://, file://, path"
    )
    out.add_argument(
        "destination", metavar="DEST", type=local, help="what to write: a folder, or a file (torch; *.safetensors)"
    )
    out.add_argument("--format", choices=FORMATS, help="default: torch if DEST ends in .pt or .pth, else safetensors")
    out.add_argument("--only", metavar="NAME", action="append",
        help="only what has this dotted name, such as model or model.layers.0; may be given again")  # fmt: skip
    out.add_argument("--max-shard-size", metavar="SIZE", type=size, default=size("5GB"),
        help="of one safetensors file; more go into several, with an index (default: 5GB)")  # fmt: skip

    into = commands.add_parser(
        "import", parents=[storage], formatter_class=raw, description=IMPORT, epilog=FILES,
        help="make a checkpoint from such files, for a job to start from",
    )  # fmt: skip
    into.add_argument("source", metavar="SOURCE", type=local, help="a file, an index of safetensors, or a folder")
    into.add_argument("--to", metavar="PREFIX", required=True, help="where to: an unused prefix: s3://, file://, path")
    into.add_argument("--step", metavar="N", type=int, help="the step that it is of (else what an export says, or 0)")
    into.add_argument("--name", metavar="NAME", help="what Run calls the object that it is (default: model)")
    return found


def _export(options: argparse.Namespace) -> None:
    storage, name = open_address(options.checkpoint, endpoint=options.endpoint, region=options.region)
    form: Format = options.format or ("torch" if options.destination.suffix in (".pt", ".pth") else "safetensors")
    with Bar("exporting") as bar:
        done = export(
            storage, name, options.destination, form,
            only=options.only, max_shard_size=options.max_shard_size, begin=bar.begin,
        )  # fmt: skip
    about = done.content.description
    _line(f"{done.uri}")
    _line(f"step {about.step:,}: {_several(len(done.content.tensors), 'tensor')}, {size_of(done.content.size)}")
    for file in done.files:
        _line(f"  {file}  {size_of(file.stat().st_size)}")
    if form == "safetensors" and about.tied:
        tied = ", ".join(f"{name} (is {kept})" for name, kept in about.tied.items())
        _line(f"tied, and written once: {tied}")
    if form == "safetensors" and done.beside:
        _line(f"{_several(len(done.beside), 'value')} beside tensors: only holdfast-train import reads them")


def _import(options: argparse.Namespace) -> None:
    if options.step is not None and options.step < 0:
        raise StateError(f"--step {options.step}: a step is 0 or more")
    storage, name = open_address(options.to, endpoint=options.endpoint, region=options.region)
    if name is not None:
        raise StateError(f"--to {options.to} is a checkpoint; name a prefix in which nothing is yet")
    with opened(options.source, options.name) as loaded, Bar("importing") as bar:
        step = options.step if options.step is not None else loaded.step or 0
        saved = into_storage(storage, loaded, step, bar.begin)
        names = ", ".join(loaded.objects)
    _line(f"{saved.uri}")
    _line(f"step {step:,} from {loaded.form}: {names}, {size_of(saved.size)}")
    if options.step is None and loaded.step is None:
        _line(f"{options.source} does not say its step: 0 is taken; --step says another")
    _line(f"a new job starts from it with checkpoint.resume: {storage.uri}")


def _line(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


COMMANDS: Final[dict[str, Callable[[argparse.Namespace], None]]] = {"export": _export, "import": _import}


def main(argv: Sequence[str] | None = None) -> int:
    """Export or import. The exit code: 0, that of the error, or 1."""
    options = parser().parse_args(argv)
    try:
        COMMANDS[options.command](options)
    except HoldfastTrainError as error:
        sys.stderr.write(f"holdfast-train {options.command}: {error}\n")
        return error.exit_code
    except ModuleNotFoundError as error:
        sys.stderr.write(f"holdfast-train {options.command}: {error}; install holdfast-train with its extra `torch`\n")
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"holdfast-train {options.command}: {where}{error.strerror or error}\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
