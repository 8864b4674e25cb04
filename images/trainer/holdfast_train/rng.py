"""Random number generators: Python's, NumPy's and torch's. Only those that the program has loaded."""

import random
import sys
from typing import Any

__all__ = ["capture", "restore"]


def capture() -> dict[str, Any]:
    """The state of every generator of this process."""
    state: dict[str, Any] = {"python": random.getstate()}
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        state["numpy"] = numpy.random.get_state(legacy=True)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state()  # of this rank's current device
    return state


def restore(state: dict[str, Any]) -> None:
    """Take over what `capture` gave. A generator that this process has not loaded is left out."""
    random.setstate(state["python"])
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        numpy.random.set_state(state["numpy"])
    torch: Any = sys.modules.get("torch")
    if torch is not None and "torch" in state:
        torch.set_rng_state(state["torch"])
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["cuda"])
