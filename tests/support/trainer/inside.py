"""What tests do to a Run that no program can do. Its private parts are named here, and in few other places."""

import math
from typing import Any

from holdfast_train.save.interval import Cost


def settle(run: Any) -> None:
    """Wait for the checkpoint that is on its way: steps take no time here, and a save that is due would be skipped."""
    if run._checkpointer is not None:
        assert run._checkpointer.saver.wait(lambda: math.inf)


def give_notice(run: Any, seconds: float, reason: str = "a drain order") -> None:
    """The run has to leave within so many seconds, as after an order of the operator."""
    run._notice.give(seconds, reason)


def save_in_step(run: Any) -> None:
    """Save in the middle of a step, at once."""
    assert run._save(10.0)


def believe_saves_cost(run: Any, lost: float, commit: float) -> None:
    """From now on the run takes this, in seconds, for the cost of a save like its last one."""
    run._saving.costs = (Cost(lost, commit, run._saving.costs[-1].size),)
