"""A short pause in each step, so that a small program saves as seldom as a training does: ZOO_PAUSE, in seconds."""

import os
import time

SECONDS = float(os.environ.get("ZOO_PAUSE", "0"))


def pause(*_: object) -> None:
    """Wait so long. It takes the arguments of a hook or a callback."""
    time.sleep(SECONDS)
