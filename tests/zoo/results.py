"""The noted verdicts, results.json: `--note` writes them, pages show them, and `--choose` draws from them."""

import json
import random
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from tests.zoo.environments import REQUIREMENTS
from tests.zoo.program import Program

FILE = Path(__file__).parent / "results.json"


def noted() -> dict[str, dict[str, Any]]:
    """By name: `version` of the package, `verdict`, `headline`, `notTried`, `date`, how many `figures` and `tensors`
    are equal, and `stepsAgain`: by interruption, how many steps were trained again; null if the program does not say.
    """
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


def note(program: Program, report: Mapping[str, Any], order: list[str]) -> None:
    """Put what a rehearsal has reported in the place of what is noted of the program. `order`: of all programs."""
    verdict = report["verdict"]
    equal = [file["equal"] for file in verdict["files"]]
    own = {
        "version": version(program),
        "verdict": verdict["kind"],
        "headline": verdict["headline"],
        "notTried": sorted(report["notTried"]),
        "date": date.today().isoformat(),
        "figures": sum(figure["standing"] == "equal" and figure["steps"] > 0 for figure in verdict["figures"]),
        "tensors": sum(count.get("weight", 0) + count.get("tensor", 0) for count in equal),
        "stepsAgain": {one["kind"]: one["lostSteps"] for one in report["interruptions"]},
    }
    found = {**noted(), program.name: own}
    kept = {name: found[name] for name in order if name in found}
    FILE.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def version(program: Program) -> str:
    """The version of the package of the program, as its environment is locked."""
    locked = (REQUIREMENTS / f"{program.group}.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(program.package or program.name)}==([^\s;]+)", locked, re.MULTILINE)
    if found is None:
        raise LookupError(f"requirements/zoo/{program.group}.txt does not name the package of {program.name}")
    return found[1]


def drawn(results: Mapping[str, Mapping[str, Any]], count: int, seed: str) -> list[str]:
    """`count` of the programs whose noted verdict is exact; the same ones for the same seed and the same results."""
    exact = sorted(name for name, result in results.items() if result["verdict"] == "exact" and not result["notTried"])
    return sorted(random.Random(seed).sample(exact, min(count, len(exact))))
