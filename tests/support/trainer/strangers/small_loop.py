"""A training of milliseconds a step, with faults that a rehearsal has to find.

    small_loop.py FOLDER STEPS SECONDS [FAULT ...]

It trains 8 weights with momentum on random data, prints its steps, and saves each 5 steps. SECONDS: of a step. After a
save it waits until that is committed, unless it is "hasty": so it goes as fast as the machine is.
"""

import json
import os
import pathlib
import pickle
import random
import signal
import sys
import threading
import time

FOLDER, STEPS, SECONDS, FAULTS = pathlib.Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), {*sys.argv[4:]}
EVERY = 5
stops = threading.Event()


def committed() -> str:
    """The commit that the folder is at, empty while it may be at one of two."""
    note = FOLDER / ".holdfast-folder.json"
    commits = json.loads(note.read_text())["commits"] if note.exists() else []
    return commits[0] if len(commits) == 1 else ""


def save(step: int) -> None:
    before = committed()
    state = {"step": step, "weights": weights, "speeds": speeds, "best": best, "data": data.getstate()}
    FOLDER.mkdir(exist_ok=True)
    beside = FOLDER / f"step-{step}.pkl.tmp"
    beside.write_bytes(pickle.dumps(state))
    beside.rename(FOLDER / f"step-{step}.pkl")
    old = sorted(FOLDER.glob("step-*.pkl"), key=lambda path: path.stat().st_mtime_ns)
    for path in old[:-2]:
        path.unlink()
    ends_at = time.monotonic() + 10
    while (
        "hasty" not in FAULTS
        and step < STEPS
        and committed() in ("", before)
        and not stops.is_set()
        and time.monotonic() < ends_at
    ):
        time.sleep(0.05)


data = random.Random(None if "unseeded" in FAULTS else 0)
weights, speeds, best, done = [0.0] * 8, [0.0] * 8, 9e9, 0
saves = sorted(FOLDER.glob("step-*.pkl"), key=lambda path: int(path.stem[5:]))
if saves and "cannot-load" in FAULTS:
    sys.exit("the save cannot be loaded")
if saves and "begins-again" not in FAULTS:
    found = pickle.loads(saves[-1].read_bytes())
    weights, best, done = found["weights"], found["best"], found["step"]
    if "forgets-speeds" not in FAULTS:
        speeds = found["speeds"]
    if "forgets-data" not in FAULTS:
        data.setstate(found["data"])
signal.signal(signal.SIGTERM, signal.SIG_IGN if "ignores-signal" in FAULTS else lambda *_: stops.set())
for step in range(done + 1, STEPS + 1):
    inputs = [data.gauss(0, 1) for _ in weights]
    error = sum(w * x for w, x in zip(weights, inputs, strict=True)) - sum(inputs)
    speeds = [0.9 * v + 0.02 * error * x for v, x in zip(speeds, inputs, strict=True)]
    weights = [w - v for w, v in zip(weights, speeds, strict=True)]
    time.sleep(0.4 if "begins-again" in FAULTS else SECONDS)
    print(f"step {step}/{STEPS} loss={error * error!r}", flush=True)
    if error * error < best:
        best = error * error
        if "outside" in FAULTS:
            pathlib.Path("best.txt").write_text(repr(weights))
    if "never-saves" not in FAULTS and (step % EVERY == 0 or step == STEPS or stops.is_set()):
        save(step)
    if "fails" in FAULTS:
        sys.exit(3)
    if stops.is_set():
        os._exit(0)
