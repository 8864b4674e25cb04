"""Does memory stay as it is over many saves? That of the trainer, and that of its writer."""

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench.checkpoint.section import Section, at_most
from tests.bench.checkpoint.training import Training
from tests.support.trainer.stores import variables

from holdfast_train import Run

STATE: Final = 16  # MB
ABOVE, GROWTH = 256.0, 8.0  # MB
_FIELD: Final = re.compile(r"^(RssAnon|RssFile):\s+(\d+) kB$", re.MULTILINE)


def soak(saves: int, say: Callable[[str], None]) -> Section:
    """`saves` saves, one after the other."""
    training = Training(STATE, 8)
    before = _resident(os.getpid())
    found: dict[int, tuple[float, float]] = {}
    marks = {saves // 100, saves // 10, saves // 2, saves}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        os.environ |= variables(f"file://{folder}/ours")
        with Run(model=training.model, optimizer=training.optimizer) as run:
            writer = _writer()
            for number in range(1, saves + 1):
                training.step()
                run.advance()
                if not run.save():
                    raise RuntimeError(f"save {number} has failed")
                if number in marks:
                    found[number] = (_resident(os.getpid()) - before, _resident(writer))
                    say(f"{number} of {saves} saves")
            run.left = True
    totals = {number: sum(both) for number, both in found.items()}
    early = totals[saves // 10]
    return Section(
        title=f"Memory over {saves} saves of {STATE} MB",
        head=("after saves", "trainer, more than before, MB", "writer, MB", "together, MB"),
        rows=tuple(
            (str(number), f"{ours:.1f}", f"{its:.1f}", f"{ours + its:.1f}") for number, (ours, its) in found.items()
        ),
        verdicts=(
            at_most("resident memory above the arenas, MB", max(totals.values()), ABOVE),
            at_most(f"growth from save {saves // 10} to {saves}, MB", totals[saves] - early, GROWTH),
        ),
        notes=("Resident memory without the arenas, which are shared memory: RssAnon + RssFile.",),
        rounds={str(number): both for number, both in found.items()},
    )


def _resident(process: int) -> float:
    """MB that are no shared memory."""
    fields = _FIELD.findall(Path(f"/proc/{process}/status").read_text())
    return sum(int(kilobytes) for _, kilobytes in fields) * 1024 / 1e6


def _writer() -> int:
    """The process that writes our checkpoints."""
    for path in Path("/proc/self/task").glob("*/children"):
        for child in path.read_text().split():
            if b"holdfast_train.save.writer" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise RuntimeError("there is no writer")
