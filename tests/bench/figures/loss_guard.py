"""What the guard for losses adds to a step: in a training, steps with and without it take turns."""

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.bench.goals import Measured

ROOT = Path(__file__).parents[3]
LONGEST = 900  # seconds


async def measure(quick: bool) -> list[Measured]:
    """The median of several trainings: the time of a step with the guard over that of a step without it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.figures.guard_cost", "3" if quick else "15", cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'images' / 'trainer'}"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), LONGEST)
    if process.returncode != 0:
        raise RuntimeError(f"the trainings ended with {process.returncode}: {err.decode(errors='replace')[-2000:]}")
    found = json.loads(out.splitlines()[-1])
    low, high = found["quarters"]
    note = (
        f"{found['trainings']} trainings of {found['steps']} steps of {found['milliseconds']:.2f} ms; "
        f"half of them are between {low:+.2f}% and {high:+.2f}%"
    )
    return [Measured("guard", max(found["percent"], 0.0), note=note)]
