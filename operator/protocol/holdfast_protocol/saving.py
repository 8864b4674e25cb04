"""How often `checkpoint.every: auto` saves: the pod obeys these bounds, and the operator computes with them."""

from __future__ import annotations

LONGEST = 3600.0  # seconds between two saves, unless saving takes long: the rate of interruptions may be wrong
MOST_SHARE = 0.05  # of the time that saving may cost
