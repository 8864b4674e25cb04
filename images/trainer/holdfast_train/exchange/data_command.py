"""The command `holdfast-train data`: what a data set contains, before a model learns from it."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast_train.census.as_page import NOTES, as_page, split_name
from holdfast_train.census.folder import LAYOUTS
from holdfast_train.census.manifest import Columns
from holdfast_train.census.summary import Summary, evenness
from holdfast_train.census.survey import look
from holdfast_train.errors import CommandCode
from holdfast_train.exchange.progress_bar import ProgressBar, format_count
from holdfast_train.pages.document import write_whole

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["COMMANDS", "add_data"]

MOST_CLASSES: Final = 20
DATA: Final = """\
Say what a data set contains: samples by class and split, how even the classes are, classes that a split lacks, and
samples with the same bytes. A folder has a folder for each class, perhaps in a folder for each split. A file is a list
as CSV, TSV or JSONL, or Parquet. Only names, labels and bytes are looked at.

examples:
  holdfast-train data pictures
  holdfast-train data pictures --html pictures.html --strict
  holdfast-train data faces.csv --label person --split fold
  holdfast-train data train.parquet --json
"""


def add_data(commands: "Commands") -> None:
    """The options of `holdfast-train data`."""
    parser = commands.add_parser(
        "data", formatter_class=argparse.RawDescriptionHelpFormatter, description=DATA,
        help="say what a data set contains: classes, splits, identical samples",
    )  # fmt: skip
    parser.add_argument("data", metavar="DATA", type=Path, help="a folder, or a file: .csv, .tsv, .jsonl or .parquet")
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write a report for a browser")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--strict", action="store_true",
        help="exit with 1 if a class is missing in a split, samples are in several splits or have several labels, or "
        "files cannot be read")  # fmt: skip
    parser.add_argument("--layout", choices=LAYOUTS,
        help="folders of classes, or of splits with classes (default: by the names of the folders)")  # fmt: skip
    parser.add_argument("--label", metavar="COLUMN", help="column of the classes (default: label, class, target, ...)")
    parser.add_argument("--split", metavar="COLUMN", help="column of the splits (default: split, subset, fold, ...)")
    parser.add_argument("--file", metavar="COLUMN", help="column of the files (default: file, path, image, ...)")
    parser.add_argument("--no-hash", action="store_true", help="do not look for samples with the same bytes")


def _data(options: argparse.Namespace) -> CommandCode:
    columns = Columns(options.label, options.split, options.file)
    with ProgressBar("reading", format_count) as bar:
        summary = look(
            options.data, layout=options.layout, columns=columns, hashes=not options.no_hash,
            begin=lambda what, total: bar.begin(total, what),
        )  # fmt: skip
    if options.html:
        write_whole(options.html, as_page(summary))
    if options.json:
        _print(json.dumps(summary.as_json(), indent=1))
    else:
        _show(summary)
        if options.html:
            _print(f"wrote {options.html}")
    wrong = list(summary.wrong())
    for line in wrong:
        _write(sys.stderr.write, f"holdfast-train data: {line}")
    return CommandCode.FAILED if wrong and options.strict else CommandCode.OK


def _show(summary: Summary) -> None:
    totals = summary.totals()
    _print(f"{summary.samples:,} samples of {len(totals):,} classes in {summary.place}, read as {summary.layout}")
    _print(f"{'split':<14} {'samples':>10} {'no label':>9} {'classes':>8} {'missing':>8} {'evenness':>9}")
    for split, one in summary.counts.items():
        counts = {name: one.get(name, 0) for name in totals}
        even, without = evenness(counts), summary.unlabelled.get(split, 0)
        _print(
            f"{split_name(split):<14} {sum(counts.values()) + without:>10,} {without:>9,} "
            f"{sum(map(bool, counts.values())):>8,} {len(summary.missing().get(split, [])):>8,} "
            f"{'-' if even is None else f'{even:.1%}':>9}"
        )
    classes = summary.classes
    width = max((len(name) for name in classes[:MOST_CLASSES]), default=0)
    for name in classes[:MOST_CLASSES]:
        _print(f"  {name:<{min(width, 40)}} {totals[name]:>10,}")
    if (more := len(classes) - MOST_CLASSES) > 0:
        _print(f"  and {more:,} smaller classes; the smallest is {classes[-1]}: {totals[classes[-1]]:,}")
    for kind, names in summary.twins.examples[:5]:
        _print(f"same bytes, {kind}: {', '.join(names)}")
    for kind, count in sorted(summary.seen.counts.items()):
        _print(f"{NOTES[kind]}: {count:,}")


def _print(text: str) -> None:
    _write(sys.stdout.write, text)


def _write(write: Callable[[str], object], text: str) -> None:
    """One line. Names of files may have bytes that are not text, and signs that drive a terminal."""
    lines = text.encode("utf-8", "backslashreplace").decode().split("\n")
    write("\n".join("".join(c if c.isprintable() else "?" for c in line) for line in lines) + "\n")


COMMANDS: Final[dict[str, Callable[[argparse.Namespace], CommandCode]]] = {"data": _data}
