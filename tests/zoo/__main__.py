"""The zoo: public training programs as they come in their packages, under `holdfast rehearse`.

    python -m tests.zoo --list
    python -m tests.zoo --check [NAME...]    without Holdfast: does the program resume after a kill?
    python -m tests.zoo [NAME...]            with Holdfast: `holdfast rehearse` for each; --note keeps the verdicts
    python -m tests.zoo --choose 2 --seed X  two of those that were exact

Without a name: all of them. tests/zoo/README.md says how to add one. The exit code is 1 if a program fails.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.zoo.check import CheckError, check
from tests.zoo.rehearsal import rehearse
from tests.zoo.results import drawn, note, noted
from tests.zoo.table import PROGRAMS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs; all if none is given")
    parser.add_argument("--list", action="store_true", help="print the programs")
    parser.add_argument("--check", action="store_true", help="check the programs without Holdfast")
    parser.add_argument("--place", type=Path, metavar="DIR", help="where they run; a new temporary folder by default")
    parser.add_argument("--note", action="store_true", help="write what is found into results.json")
    parser.add_argument("--choose", type=int, metavar="N", help="only N programs whose noted verdict is exact")
    parser.add_argument(
        "--seed", default="", metavar="TEXT", help="which programs --choose takes: the same for the same text"
    )
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - PROGRAMS.keys()):
        parser.error(f"{', '.join(unknown)}: no such program; --list names all")
    if options.names and options.choose is not None:
        parser.error("names and --choose exclude each other")
    names = options.names or PROGRAMS if options.choose is None else drawn(noted(), options.choose, options.seed)
    chosen = [program for name, program in PROGRAMS.items() if name in names]
    if options.list:
        for program in chosen:
            print(f"{program.name:<28} {program.group:<13} {program.promise}")
        return 0
    place = (options.place or Path(tempfile.mkdtemp(prefix="zoo-"))).absolute()
    failed = []
    for program in chosen:
        own = place / program.name
        own.mkdir(parents=True, exist_ok=True)
        if not options.check:
            done = rehearse(program, own)
            if options.note and done.report is not None:
                note(program, done.report, list(PROGRAMS))
            if not done.keeps:
                failed.append(program.name)
            words = f"{done.verdict} (promised: {program.promise}); {done.headline}"
            print(
                f"{program.name}: {words}{'; not tried: ' if done.not_tried else ''}{', '.join(done.not_tried)}",
                flush=True,
            )
            continue
        try:
            found = check(program, own)
        except CheckError as error:
            failed.append(program.name)
            print(f"{program.name}: FAILED: {error}", flush=True)
        else:
            same = {True: "same bytes", False: "other bytes", None: "bytes not compared"}[found.same]
            print(f"{program.name}: resumes; {found.seconds:.0f} s, {found.saves} saves, {same}", flush=True)
    print(f"{len(chosen) - len(failed)} of {len(chosen)} pass{'; failed: ' if failed else ''}{', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
