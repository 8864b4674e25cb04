"""The command `holdfast-train estimate`: the memory that a training needs, before it has an accelerator."""

import argparse
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Final

from holdfast_model.commands.user_function import user_function, user_problem
from holdfast_model.estimate.document import MARGIN_BYTES, MARGIN_SHARE, Estimate, Row, verdict, with_margin
from holdfast_model.estimate.errors import NotKnownError
from holdfast_train.errors import CommandCode, StateError
from holdfast_train.exchange.command import size as bytes_of
from holdfast_train.exchange.lines import say, show, show_json
from holdfast_train.exchange.progress_bar import format_size

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

LARGEST_BATCH: Final = 1 << 30
NOTHING: Final = "-"
ESTIMATE: Final = """\
Say how much memory of an accelerator a training needs, and a forward pass without training. No accelerator is needed:
a step runs twice with tensors that have shapes and no memory.

FUNCTION of --training returns the model, and a function that trains one step:

  def training(batch=32):
      model = Net()
      optimizer = torch.optim.AdamW(model.parameters())
      inputs, labels = torch.zeros(batch, 3, 224, 224), torch.zeros(batch, dtype=torch.long)

      def step():
          loss = torch.nn.functional.cross_entropy(model(inputs), labels)
          loss.backward()
          optimizer.step()
          optimizer.zero_grad()

      return model, step

examples:
  holdfast-train estimate --training train:training
  holdfast-train estimate --training train:training --batch 8 --batch 16 --fits spot-t4=15GiB
  holdfast-train estimate --training train:training --batch 8 --json > memory.json
  holdfast-train estimate --problem train:problem --batch 64
"""


def batch(text: str) -> int:
    """`8` as a number. ArgumentTypeError if it is not the size of a batch."""
    if not (text.isascii() and text.isdecimal() and len(text) < 11 and 1 <= int(text) <= LARGEST_BATCH):
        raise argparse.ArgumentTypeError(f"{text!r} is not a batch; allowed: a whole number from 1 on, as 8")
    return int(text)


def add_estimate(commands: "Commands", _storage: argparse.ArgumentParser) -> None:
    """The options of `holdfast-train estimate`."""

    def accelerator(text: str) -> tuple[str, int]:
        name, separator, value = text.rpartition("=")
        if not separator or not name:
            raise argparse.ArgumentTypeError(f"{text!r} is not a name with a size; allowed: as spot-t4=15GiB")
        return name, bytes_of(value)

    parser = commands.add_parser(
        "estimate", formatter_class=argparse.RawDescriptionHelpFormatter, description=ESTIMATE,
        help="say how much memory of an accelerator a training needs",
    )  # fmt: skip
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--training", metavar="MODULE:FUNCTION",
        help="a function of your program that returns the model and a step")  # fmt: skip
    source.add_argument("--problem", metavar="MODULE:FUNCTION",
        help="a function that returns a holdfast_model.package.Problem: for a forward pass without training"
    )  # fmt: skip
    parser.add_argument("--argument", metavar="TEXT", action="append", default=[],
        help="an argument for this function; may be repeated")  # fmt: skip
    parser.add_argument("--batch", metavar="N", type=batch, action="append", default=[],
        help="a batch: `batch` of the function, or of the problem; may be repeated")  # fmt: skip
    parser.add_argument("--fits", metavar="NAME=SIZE", type=accelerator, action="append", default=[],
        help="also say which batches fit into an accelerator with so much memory, as spot-t4=15GiB; may be "
        "repeated")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print everything as JSON, for holdfast check --memory")
    parser.set_defaults(work=_estimate)


def _estimate(options: argparse.Namespace) -> CommandCode:
    import torch  # noqa: PLC0415 - an extra

    source = options.training or options.problem
    known = partial(Estimate, source, tuple(options.argument), torch.__version__)
    if options.json and options.fits:
        raise StateError("--fits says nothing in JSON; leave it out, and give the file to holdfast check --memory")
    try:
        with redirect_stdout(sys.stderr):  # what the program prints is not a part of the answer
            rows = tuple(_rows(options))
        found = known(rows)
    except NotKnownError as error:
        found = known(unknown=str(error))
    if options.json:
        show_json(json.dumps(found.as_json(), indent=1))
    elif not found.unknown:
        _show(found, options.fits)
    if found.unknown:
        say(f"holdfast-train estimate: not known: {found.unknown}")
        return CommandCode.FAILED
    return CommandCode.OK


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    from holdfast_model.estimate import steps  # noqa: PLC0415 - torch is an extra

    batches: Sequence[int | None] = sorted(set(options.batch)) or [None]
    problem = None if options.problem is None else user_problem(options.problem, options.argument)
    function = None if options.training is None else user_function("--training", options.training)
    for number, size in enumerate(batches, 1):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[Kcomputing {number} of {len(batches)}")
            sys.stderr.flush()
        try:
            if problem is not None:
                yield Row(size, None, steps.of_problem(problem, size))
            elif function is not None:
                make = _call(options, function, size)
                yield Row(size, steps.training(make), steps.inference(make))
        finally:
            if sys.stderr.isatty():
                sys.stderr.write("\r\x1b[K")


def _call(options: argparse.Namespace, function: Callable[..., object], size: int | None) -> Callable[[], object]:
    """`function` with its arguments. StateError if it does not take them."""
    named = {} if size is None else {"batch": size}
    try:
        inspect.signature(function).bind(*options.argument, **named)
    except TypeError as error:
        raise StateError(
            f"--training {options.training}: the function does not take what it is given ({error}); --batch is given "
            f"as `batch`, and each --argument as a text"
        ) from error
    return partial(function, *options.argument, **named)


def _show(found: Estimate, accelerators: Sequence[tuple[str, int]]) -> None:
    titles = ("batch", "parameters", "gradients", "optimizer", "activations", "peak", "with margin", "inference")
    show("  ".join(f"{title:>11}" for title in titles))
    for row in found.rows:
        one, other = row.training, row.inference
        sizes = [None] * 6 if one is None else [
            one.parameters, one.gradients, one.optimizer, one.activations, one.total, with_margin(one.total),
        ]  # fmt: skip
        cells = [*sizes, other.total if other else None]
        texts = (NOTHING if size is None else format_size(size) for size in cells)
        show("  ".join(f"{text:>11}" for text in (row.batch or NOTHING, *texts)))
    show()
    show("peak: what the tensors of one process occupy when it is most, as torch.cuda.max_memory_allocated counts")
    show(
        f"margin, an assumption: {format_size(MARGIN_BYTES)} for the context and the libraries of CUDA, and "
        f"{MARGIN_SHARE:.0%} for what the allocator cannot use"
    )
    for name, memory in accelerators:
        said = [
            f"{'it' if row.batch is None else f'a batch of {row.batch}'} {verdict(peak.total, memory)}"
            for row in found.rows
            if (peak := row.training or row.inference)
        ]
        show(f"{name} ({format_size(memory)}): {', '.join(said)}")
