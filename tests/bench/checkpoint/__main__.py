"""`make bench-checkpoint`: what checkpoints cost, beside what the machine allows and what others reach."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from tests.bench.checkpoint import report
from tests.bench.checkpoint.beside import beside
from tests.bench.checkpoint.restores import restore
from tests.bench.checkpoint.section import Section, tell
from tests.bench.checkpoint.soak import soak
from tests.bench.checkpoint.stalls import stalls
from tests.bench.checkpoint.uploads import upload
from tests.support import guard

PAGE: Final = Path(__file__).parents[3] / "docs" / "reference" / "benchmarks-checkpoint.md"
LARGE: Final = 1000  # MB
FIGURES: Final = ("stalls", "beside", "upload", "restore", "soak")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.checkpoint", description=__doc__)
    parser.add_argument("--only", action="append", choices=FIGURES, help="measure only this; can be repeated")
    parser.add_argument("--rounds", type=int, default=20, help="how often each way is measured (default 20)")
    parser.add_argument("--state", type=int, action="append", metavar="MB",
                        help="size of the state that is saved; can be repeated (default 64, 512 and 2048)")  # fmt: skip
    parser.add_argument("--size", type=int, default=1024, metavar="MIB",
                        help="what is uploaded and restored without a training, in MiB (default 1024)")  # fmt: skip
    parser.add_argument("--saves", type=int, default=1000, help="saves over which memory is watched (default 1000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds to FILE too")
    written = "write the Markdown page there; a full run writes docs/reference/benchmarks-checkpoint.md"
    parser.add_argument("--write", type=Path, metavar="FILE", help=written)
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace, name: str, say: Callable[[str], None]) -> list[Section]:
    """The sections of one figure."""
    rounds, size = options.rounds, options.size << 20
    match name:
        case "stalls":
            return [_stalls(state, rounds) for state in options.state or (64, 512, 2048)]
        case "beside":
            return [beside(rounds, say)]
        case "upload":
            return [upload(size, rounds, say)]
        case "restore":
            return [restore(size, rounds, say)]
        case _:
            return [_alone(soak, options.saves, partial(tell, name))]


def _stalls(state: int, rounds: int) -> Section:
    """A large state is saved less often, or it would take an hour."""
    rounds = rounds if state < LARGE else max(5, rounds // 4)
    return _alone(stalls, state, rounds, partial(tell, f"stalls, {state} MB"))


def _alone(figure: Callable[..., Section], *arguments: Any) -> Section:
    """In a process of its own, which begins with no memory of others and leaves none of its processes to them."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(figure, *arguments).result()


def main() -> int:
    """Measure and print. A goal that is missed is shown, and is not an error."""
    options = parse()
    guard.start()
    # s3torchconnector takes keys from the environment alone; nothing here leaves the machine.
    os.environ |= {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret"}
    out = Console()
    if not out.is_terminal:
        out = Console(width=160)
    found: list[Section] = []
    for name in options.only or FIGURES:
        found += measure(options, name, partial(tell, name))
    report.show(found, out)
    if options.json:
        options.json.write_text(json.dumps(report.as_json(found), indent=2) + "\n", encoding="utf-8")
    page = options.write or (None if options.only or options.state else PAGE)
    if page:
        page.write_text(report.markdown(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
