"""The command `holdfast-train data`: what a data set contains, before a model learns from it."""

import argparse
import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast_model.census.as_page import NOTES, as_page, split_name
from holdfast_model.census.folder import LAYOUTS
from holdfast_model.census.manifest import Columns
from holdfast_model.census.summary import Summary, evenness
from holdfast_model.census.survey import look
from holdfast_model.pages.document import check_writable, write_whole
from holdfast_train.errors import CommandCode
from holdfast_train.exchange.lines import say, show, show_json
from holdfast_train.exchange.progress_bar import ProgressBar, format_count

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

MOST_CLASSES: Final = 20
DATA: Final = """\
Say what a data set contains: samples by class and split, how even the classes are, classes that a split lacks, and
samples with the same bytes. A folder has a folder for each class, perhaps in a folder for each split. A file is a list
as CSV, TSV or JSONL, or Parquet. Files of COCO, one for each split, have boxes: these are counted by class, and images
without boxes too. Only names, labels, boxes and bytes are looked at.

examples:
  holdfast-train data pictures
  holdfast-train data pictures --html pictures.html --strict
  holdfast-train data faces.csv --label person --split fold
  holdfast-train data train.parquet --json
  holdfast-train data annotations/instances_train.json annotations/instances_val.json --images pictures
"""


def add_data(commands: "Commands", _storage: argparse.ArgumentParser) -> None:
    """The options of `holdfast-train data`."""
    parser = commands.add_parser(
        "data", formatter_class=argparse.RawDescriptionHelpFormatter, description=DATA,
        help="say what a data set contains: classes, splits, identical samples",
    )  # fmt: skip
    parser.add_argument("data", metavar="DATA", type=Path, nargs="+",
        help="a folder, or a file: .csv, .tsv, .jsonl or .parquet; or files of COCO: .json")  # fmt: skip
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write a report for a browser")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--strict", action="store_true",
        help="exit with 1 if a class is missing in a split, samples are in several splits or have several labels, "
        "files cannot be read, or boxes are wrong")  # fmt: skip
    parser.add_argument("--layout", choices=LAYOUTS,
        help="folders of classes, or of splits with classes (default: by the names of the folders)")  # fmt: skip
    parser.add_argument("--label", metavar="COLUMN", help="column of the classes (default: label, class, target, ...)")
    parser.add_argument("--split", metavar="COLUMN", help="column of the splits (default: split, subset, fold, ...)")
    parser.add_argument("--file", metavar="COLUMN", help="column of the files (default: file, path, image, ...)")
    parser.add_argument("--images", metavar="FOLDER", type=Path,
        help="folder of the images that files of COCO name (default: looked for near each file)")  # fmt: skip
    parser.add_argument("--no-hash", action="store_true", help="do not look for samples with the same bytes")
    parser.set_defaults(work=_data)


def _data(options: argparse.Namespace) -> CommandCode:
    if options.html:
        _check_page(options.html)
    columns = Columns(options.label, options.split, options.file)
    with ProgressBar("reading", format_count) as bar:
        summary = look(
            *options.data, layout=options.layout, columns=columns, hashes=not options.no_hash, images=options.images,
            begin=lambda what, total: bar.begin(total, what),
        )  # fmt: skip
    if options.html:
        write_whole(options.html, as_page(summary))
    if options.json:
        show_json(json.dumps(summary.as_json(), indent=1))
    else:
        _show(summary)
        if options.html:
            show(f"wrote {options.html}")
    wrong = list(summary.wrong())
    for line in wrong:
        say(f"holdfast-train data: {line}")
    return CommandCode.FAILED if wrong and options.strict else CommandCode.OK


def _check_page(path: Path) -> None:
    """OSError if the page cannot be written there."""
    if not path.absolute().parent.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    check_writable(path.absolute().parent)


def _show(summary: Summary) -> None:
    totals = summary.totals()
    boxes, many = summary.boxes, summary.unit[1]
    images = f" on {sum(boxes.images.values()):,} images" if boxes else ""
    show(f"{summary.samples:,} {many} of {len(totals):,} classes{images} in {summary.place}, read as {summary.layout}")
    counted = f"{'images':>10} {'no box':>9} {'boxes':>10}" if boxes else f"{'samples':>10} {'no label':>9}"
    show(f"{'split':<14} {counted} {'classes':>8} {'missing':>8} {'evenness':>9}")
    for split, one in summary.counts.items():
        counts = {name: one.get(name, 0) for name in totals}
        even, without, labelled = evenness(counts), summary.unlabelled.get(split, 0), sum(counts.values())
        figures = f"{labelled + without:>10,} {without:>9,}"
        if boxes:
            figures = f"{boxes.images[split]:>10,} {boxes.empty[split]:>9,} {labelled:>10,}"
        show(
            f"{split_name(split):<14} {figures} "
            f"{sum(map(bool, counts.values())):>8,} {len(summary.missing().get(split, [])):>8,} "
            f"{'-' if even is None else f'{even:.1%}':>9}"
        )
    classes = summary.classes
    width = max((len(name) for name in classes[:MOST_CLASSES]), default=0)
    for name in classes[:MOST_CLASSES]:
        show(f"  {name:<{min(width, 40)}} {totals[name]:>10,}")
    if (more := len(classes) - MOST_CLASSES) > 0:
        show(f"  and {more:,} smaller classes; the smallest is {classes[-1]}: {totals[classes[-1]]:,}")
    for kind, names in summary.twins.examples[:5]:
        show(f"same bytes, {kind}: {', '.join(names)}")
    for kind, count in sorted(summary.seen.counts.items()):
        show(f"{NOTES[kind]}: {count:,}")
