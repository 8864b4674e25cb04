"""Python's search for garbage cycles stops the event loop, so it is made rare.

What the operator keeps (jobs, pods, nodes) has no cycles, and reference counts free what it drops. With Python's own
thresholds each large JSON text of a watch starts searches. At 1,000 jobs on a busy machine they took a quarter of the
time of the event loop, and each search of all objects 0.2 s or more, in which no order is delivered.
"""

import gc

YOUNG = 50_000  # objects made and not freed since the last search; Python's default is 700


def search_rarely() -> None:
    """Search for cycles only after many more objects are alive than at the last search."""
    _, middle, old = gc.get_threshold()
    gc.set_threshold(YOUNG, middle, old)
