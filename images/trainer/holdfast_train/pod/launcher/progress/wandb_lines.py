"""`run_url`: the address of the run of Weights & Biases, which its library prints.

It prints `wandb: 🚀 View run at https://...` when a run begins, and `wandb: 🚀 View run NAME at: https://...` when it
ends (version 0.31.0). Nothing else knows that address: it has the name of the user or the team.
"""

from __future__ import annotations

from holdfast_protocol.tracking import to_url


def run_url(line: str) -> str | None:
    """The address in a line of output; None if the line is another one."""
    words = line.partition("wandb: ")[2].split()
    if words[-2:-1] not in (["at"], ["at:"]) or "View run " not in line:
        return None
    return to_url(words[-1])
