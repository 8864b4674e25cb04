"""The verdict: one line of JSON that a launcher or an init container leaves as termination message when it ends."""

from __future__ import annotations

import re

MOST_BYTES = 4096  # a kubelet cuts a longer termination message
WRITER_SECONDS = 60.0  # how long a verdict waits for a checkpoint that is on its way when the program has ended
REASON = re.compile(r"[A-Za-z0-9]{1,64}")
UNKNOWN = "Unknown"  # in place of a reason that has another form
ROOT_CAUSE = "Root Cause: "  # begins the line on the rank that failed first, as torchrun calls it

# The exit code of the process that failed first: in ROOT_CAUSE's line, or in torchrun's own report.
FIRST_CODE = re.compile(r"Root Cause(?:(?!exitcode).)*exitcode *: *(-?\d{1,3})\b", re.DOTALL)
