"""The writer as a process: it goes on when its trainer dies, and the trainer goes on when the writer dies."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil
import pytest
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import LAUNCHER, REPOSITORY, identity, variables
from tests.support.waiting import wait_for

from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.commitlog.records import Keep
from holdfast_train.storage.folder import FolderStorage

SIZE: Final = 64 << 20
TRAINER: Final = """
import os, signal, sys, time
import numpy as np
from holdfast_train import Run

class State:
    def __init__(self): self.values = np.zeros(SIZE, np.uint8)
    def state_dict(self): return {"values": self.values}
    def load_state_dict(self, state): self.values = state["values"]

state = State()
with Run(state=state) as run:
    for step in run.steps(1_000_000):
        state.values[:] = (step + 1) % 256
        BODY
"""


@pytest.fixture
def storage(tmp_path: Path) -> FolderStorage:
    return FolderStorage(tmp_path / "prefix")


def start(
    storage: FolderStorage, tmp_path: Path, body: str, size: int = 64 << 20, **more: str
) -> subprocess.Popen[str]:
    program = TRAINER.replace("SIZE", str(size)).replace("BODY", body)
    env = {
        **os.environ,
        **variables(storage.uri, 1, HOLDFAST_VERDICT_DIR=str(tmp_path), **more),
        "PYTHONPATH": str(REPOSITORY / "images/trainer"),
    }
    command = [sys.executable, str(LAUNCHER), "--", sys.executable, "-c", program]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


def newest(storage: FolderStorage) -> tuple[int, bytes]:
    """Step and state of the newest checkpoint, which must be intact."""
    found = Checkpoints(storage, identity(2), Keep())
    found.start("Auto")
    restored = restore_whole(found)
    assert restored is not None
    assert restored.note == ""
    return restored.step, restored.state["objects"]["state"]["values"].tobytes()


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(3)", "1 / 0"])
def test_the_checkpoint_of_a_trainer_that_dies_after_its_capture_is_committed(
    storage: FolderStorage, tmp_path: Path, end: str
) -> None:
    trainer = start(storage, tmp_path, f"{end} if step == 5 else None", HOLDFAST_CHECKPOINT_EVERY="5 steps")
    _, err = trainer.communicate(timeout=60)
    assert newest(storage) == (5, bytes([5]) * SIZE), err
    assert trainer.returncode != 0


def test_a_trainer_goes_on_without_its_writer(storage: FolderStorage, tmp_path: Path) -> None:
    shown = tmp_path / "step"
    body = f"time.sleep(0.01); open({str(shown)!r}, 'w').write(str(step))"
    trainer = start(storage, tmp_path, body, HOLDFAST_CHECKPOINT_EVERY="5 steps")
    wait_for(lambda: storage.keys("manifests/"), 30, "the first commit")
    writer = writer_of(trainer)
    assert writer is not None
    writer.suspend()
    at = int(shown.read_text() or 0)
    wait_for(lambda: int(shown.read_text() or 0) > at + 20, 30, "steps while a checkpoint is in flight")
    writer.kill()
    trainer.send_signal(signal.SIGTERM)
    _, err = trainer.communicate(timeout=60)
    assert "the writer process ended before step" in err
    step, values = newest(storage)
    assert step > at
    assert values == bytes([step % 256]) * SIZE


def writer_of(trainer: subprocess.Popen[str]) -> psutil.Process | None:
    for process in psutil.Process(trainer.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie has no command line
            if "holdfast_train.save.writer" in process.cmdline():
                return process
    return None
