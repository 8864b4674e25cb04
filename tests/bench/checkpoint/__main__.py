"""`make bench-checkpoint`: how fast checkpoints move, beside what the machine allows and what others reach.

The server is a null server in a process of its own, so the client is what is measured; it shares the machine's cores.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from tests.bench.checkpoint import report
from tests.bench.checkpoint.arms import Results
from tests.bench.checkpoint.restores import restore
from tests.bench.checkpoint.uploads import upload

Measure = Callable[[int, int, Callable[[str], None]], Results]

FIGURES: dict[str, Measure] = {"upload": upload, "restore": restore}


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.checkpoint", description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(FIGURES), help="measure only this; can be repeated")
    parser.add_argument("--rounds", type=int, default=9, help="how often each way is measured (default 9)")
    parser.add_argument("--size", type=int, default=1024, metavar="MIB", help="what is moved, in MiB (default 1024)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds to FILE too")
    return parser.parse_args(arguments)


def main() -> int:
    """Measure and print. A goal that is missed is shown, and is not an error."""
    options = parse()
    # s3torchconnector takes keys from the environment alone; nothing here leaves the machine.
    os.environ |= {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret"}
    err, out = Console(stderr=True), Console()
    if not out.is_terminal:
        out = Console(width=160)
    found = [
        FIGURES[name](options.size << 20, options.rounds, lambda text, name=name: err.print(f"{name}: {text}"))  # type: ignore[misc]
        for name in options.only or FIGURES
    ]
    report.show(found, out)
    if options.json:
        options.json.write_text(json.dumps(report.as_json(found), indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
