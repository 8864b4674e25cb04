"""The language model of holdfast_train, which also says when each of its steps was done, by this machine's clock."""

import sys
import time
from typing import Any

from holdfast_train import Run
from holdfast_train.examples import language_model

SAYS = "done"


class TimedRun(Run):
    """Prints `done STEP SECONDS` after each step, in seconds since 1970."""

    def advance(self, loss: Any = None, samples: float = 0.0) -> None:
        sys.stdout.write(f"{SAYS} {self.step + 1} {time.time():.3f}\n")
        sys.stdout.flush()
        super().advance(loss, samples)


if __name__ == "__main__":
    language_model.Run = TimedRun  # type: ignore[misc]
    sys.exit(language_model.main())
