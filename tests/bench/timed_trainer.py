"""The language model of holdfast_train, which also says when each of its steps was done, by this machine's clock.

Rank 0 also appends it to the file that STEP_TIMES names, if it is set: the log of a pod goes with the pod.
With RESTART_IN_PLACE the program stays in its process when the training starts again.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast_train import Run, restart_in_place
from holdfast_train.examples import language_model

SAYS = "done"
FILE = "STEP_TIMES"
IN_PLACE = "RESTART_IN_PLACE"


class TimedRun(Run):
    """Prints `done STEP SECONDS` after each step, in seconds since 1970."""

    def steps(self, goal: int | None = None) -> Iterator[int]:
        for step in super().steps(goal):
            yield step
            line = f"{SAYS} {self.step + 1} {time.time():.3f}\n"
            sys.stdout.write(line)
            sys.stdout.flush()
            if FILE in os.environ and os.environ.get("RANK", "0") == "0":
                with Path(os.environ[FILE]).open("a", encoding="utf-8") as times:
                    times.write(line)


if __name__ == "__main__":
    language_model.Run = TimedRun  # type: ignore[misc]
    sys.exit(restart_in_place(language_model.main) if os.environ.get(IN_PLACE) else language_model.main())
