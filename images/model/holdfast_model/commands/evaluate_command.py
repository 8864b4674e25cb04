"""The command `holdfast-train evaluate`: how good packages are on new data, and which variant ships.

It imports the evaluation when it runs: numpy is an extra, and the other commands have messages without it.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from holdfast_model.commands.user_function import user_function
from holdfast_model.pages.document import check_writable, write_whole
from holdfast_model.pages.fragments import size_text
from holdfast_train.errors import CommandCode
from holdfast_train.exchange.lines import say, show
from holdfast_train.exchange.progress_bar import ProgressBar, format_count

if TYPE_CHECKING:
    from holdfast_model.evaluation.comparison import Comparison
    from holdfast_model.evaluation.data import Data
    from holdfast_model.evaluation.measure import Result, Score
    from holdfast_model.package.problem import Pixels

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

JSON: Final = "evaluation.json"
PAGE: Final = "evaluation.html"
EVALUATE: Final = """\
Run packages of models over new data: accuracy by class, confusion, calibration and the worst examples; for models that
predict tokens, loss and perplexity; or a score of your own. All variants are compared by size, time and score, and the
report says which one ships. Variants of ONNX need no torch.

examples:
  holdfast-train evaluate vit-faces --data pictures/test -o faces-on-test
  holdfast-train evaluate vit-small vit-base --data pictures/test --variant onnx --variant onnx-int8 -o small-or-base
  holdfast-train evaluate lm --data windows.npz -o lm-on-windows
  holdfast-train evaluate detector --data streets --score score:mean_precision -o detector-on-streets
"""
DATA: Final = """\
data:
  folder          a folder for each class, with pictures; or files of Parquet with pictures and labels
  .npz            arrays by the names of the inputs, and `labels`; also .safetensors
  .parquet        pictures as bytes in a column, and a column of labels

exit codes: 0 done, 1 failed, or a variant has no score, 2 wrong command line, 130 interrupted: nothing is written"""


def numbers(text: str) -> tuple[float, ...]:
    """`0.5` or `0.485,0.456,0.406`. ArgumentTypeError if it is neither."""
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if len(found) not in (1, 3):
        raise argparse.ArgumentTypeError(f"{text!r} is not one number, or three as 0.485,0.456,0.406")
    return found


def share(text: str) -> float:
    """A number from 0 on. ArgumentTypeError if it is not one."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on, as 0.01")
    return found


def add_evaluate(commands: "Commands", _storage: argparse.ArgumentParser) -> None:
    """The options of `holdfast-train evaluate`."""
    parser = commands.add_parser(
        "evaluate", formatter_class=argparse.RawDescriptionHelpFormatter, description=EVALUATE, epilog=DATA,
        help="run packages over new data: scores, the worst examples, and which variant ships",
    )  # fmt: skip
    parser.add_argument("packages", metavar="PACKAGE", type=Path, nargs="+", help="a folder with package.json")
    parser.add_argument("--data", metavar="DATA", type=Path, required=True, help="a folder, or a file; see below")
    parser.add_argument("-o", "--output-folder", metavar="FOLDER", type=Path, required=True, dest="folder",
        help=f"where {PAGE} and {JSON} are written; it must not have an evaluation yet")  # fmt: skip
    parser.add_argument("--variant", metavar="NAME", action="append",
        help="evaluate only this variant; may be repeated. pt2 may contain code, and is run only if it is named "
        "(default: all)")  # fmt: skip
    parser.add_argument("--score", metavar="MODULE:FUNCTION",
        help="your own score: a function of the model and the path of the data; higher is better")  # fmt: skip
    parser.add_argument("--output", metavar="NAME", help="output that is scored (default: the only one that can be)")
    parser.add_argument("--max-drop", metavar="SCORE", type=share, default=0.01,
        help="the smallest variant ships that is at most this much worse than the best (default: 0.01)")  # fmt: skip
    parser.add_argument("--mean", metavar="NUMBERS", type=numbers,
        help="how pixels of 0 to 1 become inputs: (value - mean) / std; one number or three (default: of the "
        "package)")  # fmt: skip
    parser.add_argument("--std", metavar="NUMBERS", type=numbers, help="see --mean")
    parser.add_argument("--label", metavar="COLUMN", help="column of labels in Parquet (default: label, class, ...)")
    parser.set_defaults(work=_evaluate)


def _evaluate(options: argparse.Namespace) -> CommandCode:
    from holdfast_model.evaluation.as_page import as_page  # noqa: PLC0415 - see above
    from holdfast_model.evaluation.comparison import Comparison  # noqa: PLC0415
    from holdfast_model.evaluation.measure import candidates, evaluate, evaluate_by  # noqa: PLC0415

    _check_folder(options.folder)
    found = candidates(options.packages, options.variant or ["all"])
    with ProgressBar("reading", format_count) as bar:

        def begin(what: str, total: int | None) -> Callable[[int], None]:
            return bar.begin(total, what)

        data: Data | None = None
        if options.score:
            metric, score = options.score, cast("Score", user_function("--score", options.score))
            _check_data(options.data)
            results = evaluate_by(score, found, str(options.data), begin)
        else:
            data = _open(options)
            results = evaluate(found, data, output=options.output, pixels=_pixels(options), begin=begin)
            metric = "loss" if any(one.tokens for one in results) else "accuracy"
    damaged = data.damage.found if data is not None else {}
    comparison = Comparison(
        str(options.data), metric, _samples(results), results, options.max_drop, damaged,
        [one for one in found if one.left_out],
    )  # fmt: skip
    _write(options.folder, as_page(comparison), json.dumps(comparison.as_json(), indent=1) + "\n")
    _show(comparison, options.folder)
    return CommandCode.FAILED if comparison.failed else CommandCode.OK


def _write(folder: Path, page: str, text: str) -> None:
    """Both files, or none of them."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        write_whole(folder / PAGE, page)
        write_whole(folder / JSON, text)
    except BaseException:
        (folder / PAGE).unlink(missing_ok=True)
        with suppress(OSError):  # it may have other files
            folder.rmdir()
        raise


def _samples(results: "Sequence[Result]") -> int | None:
    """How many samples were scored; None if only a function of the user knows."""
    scores = (one.classes or one.tokens for one in results if one.score is not None)
    return next((one.samples for one in scores if one is not None), None)


def _check_folder(folder: Path) -> None:
    from holdfast_model.evaluation.errors import EvaluationError  # noqa: PLC0415

    if folder.exists() and not folder.is_dir():
        raise EvaluationError(f"-o {folder} is a file; name a folder")
    if (folder / JSON).exists():
        raise EvaluationError(f"-o {folder} has an evaluation already: use another name, or remove it first")
    check_writable(folder)


def _check_data(path: Path) -> None:
    from holdfast_model.evaluation.errors import EvaluationError  # noqa: PLC0415

    if not path.exists():
        raise EvaluationError(f"--data {path} does not exist")


def _open(options: argparse.Namespace) -> "Data":
    from holdfast_model.evaluation.data import open_arrays  # noqa: PLC0415
    from holdfast_model.evaluation.errors import EvaluationError  # noqa: PLC0415
    from holdfast_model.evaluation.pictures import open_folder, open_parquet  # noqa: PLC0415

    path: Path = options.data
    _check_data(path)
    if path.is_dir():
        files = sorted(path.glob("*.parquet"))
        return open_parquet(files, options.label) if files else open_folder(path)
    match path.suffix.lower():
        case ".npz" | ".safetensors":
            return open_arrays(path)
        case ".parquet":
            return open_parquet([path], options.label)
    raise EvaluationError(f"--data {path}: allowed: a folder, .npz, .safetensors or .parquet; or a function by --score")


def _pixels(options: argparse.Namespace) -> "Pixels | None":
    from holdfast_model.evaluation.errors import EvaluationError  # noqa: PLC0415
    from holdfast_model.package.problem import Pixels  # noqa: PLC0415

    if options.mean is None and options.std is None:
        return None
    if options.mean is None or options.std is None:
        raise EvaluationError("--mean and --std go together; give both")
    return Pixels(options.mean, options.std)


def _show(comparison: "Comparison", folder: Path) -> None:
    ships = comparison.ships
    many = "" if comparison.samples is None else f", {comparison.samples:,} samples"
    show(f"{comparison.data}{many}")
    head = f"{'':<6} {'package':<24} {'variant':<12} {'size':>12} {'time of a call':>15} {comparison.metric:>10}"
    show(f"{head} {'worse by':>9}")
    for one in comparison.scored:
        took = "-" if one.call_seconds is None else f"{one.call_seconds * 1000:,.1f} ms"
        name = f"{'ships' if one is ships else '':<6} {one.candidate.name[-24:]:<24} {one.candidate.variant:<12}"
        figures = f"{comparison.shown(one):>10.4f} {comparison.drop(one):>9.4f}"
        show(f"{name} {size_text(one.candidate.bytes):>12} {took:>15} {figures}")
    if comparison.damaged:
        name, why = next(iter(comparison.damaged.items()))
        show(f"damaged samples, which are left out: {len(comparison.damaged):,}; the first: {name}: {why}")
    show(f"wrote {folder / PAGE} and {folder / JSON}")
    for one in comparison.failed:
        say(f"holdfast-train evaluate: {one.candidate.name} {one.candidate.variant}: {one.why}")
