"""`run_url`: the web address of this process's run in Weights & Biases.

The library is asked, and neither imported nor started: it is there if the program uses it.
"""

import sys

from holdfast_protocol.tracking import to_url


def run_url() -> str | None:
    """The address of `wandb.run`, without network; None if there is no such run, or it is offline."""
    try:
        run = getattr(sys.modules.get("wandb"), "run", None)
        if run is None or run.offline:  # an offline run has no address, and prints a warning if it is asked for one
            return None
        return to_url(run.url)
    except Exception:  # noqa: BLE001 - code of another library, in any state: a report must not depend on it
        return None
