"""Which attempts the wrapper kills, and when. Pure."""

import itertools
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from holdfast_cli.rehearse.left import Interruption
from holdfast_cli.rehearse.ran import Planned
from holdfast_cli.rehearse.schedule import Seen

NEVER: Final = 2**53  # no commit has such a step
BY_WRAPPER: Final = (Interruption.CRASH, Interruption.CRASH_IN_SAVE)
"""The others need the cluster."""


def attempts_of(plan: Sequence[Planned], seen: Sequence[Seen], *, has_folder: bool) -> dict[int, dict[str, Any]]:
    """What `script.wrapping` needs: of each attempt that is to be killed, when. The first interruption is in attempt 1.

    A pod sees how many saves of its own start are committed, and their steps. It does not see the step of the program,
    which is about that of the next save. Without a folder it sees no save: then the time counts that the undisturbed
    run (`seen`) took for so many saves.
    """
    before = [0, *(planned.due.saves for planned in plan)]
    steps = [one.step for one in seen if one.step is not None]
    between = median(later - earlier for earlier, later in itertools.pairwise(steps)) if len(steps) > 1 else 0
    found = {}
    for number, (planned, earlier) in enumerate(zip(plan, before, strict=False), 1):
        if planned.kind not in BY_WRAPPER:
            continue
        saves = max(1, planned.due.saves - earlier)
        in_save = planned.kind is Interruption.CRASH_IN_SAVE and has_folder
        found[number] = {
            "seconds": 0.0 if has_folder else seen[min(saves, len(seen)) - 1].at,
            "saves": saves if has_folder else 0,
            "step": NEVER if planned.due.step is None else max(1, planned.due.step - round(between)),
            "pause": 0.0 if in_save else planned.due.pause,  # it waits for the next save, which may follow soon
            "inSave": in_save,
            "patience": planned.due.patience,
        }
    return found
