"""The progress report of a pod: its senders, and its limits. `POST .../progress` has it as a JSON object.

Four programs of a pod may report. The library, which trains, knows everything. Of a program without the library, the
launcher relays steps and figures, and the writer of checkpoint.folder knows checkpoints. The stager copies the data
before the program starts. The operator keeps the newest of each, and derives one view.
"""

from __future__ import annotations

import re
from typing import Final, Literal

Sender = Literal["Library", "Relay", "Folder", "Stager"]
LIBRARY: Final = "Library"
RELAY: Final = "Relay"
FOLDER: Final = "Folder"
STAGER: Final = "Stager"
OBEY: Final = (LIBRARY, FOLDER)  # the others do not know orders
State = Literal["waiting", "starting", "training", "saving", "left", "completed"]

MAX_BODY: Final = 64 * 1024  # bytes
MAX_METRICS: Final = 16  # beside the figures
METRIC_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@-]{0,63}")
MAX_LINE: Final = 256  # characters of a reason
MAX_SLOW_RANKS: Final = 8
EVERY_SECONDS: Final = 15.0  # between reports, until the operator sets another interval
