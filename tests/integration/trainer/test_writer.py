"""The writer as a process: it goes on when its trainer dies, and the trainer goes on when the writer dies."""

import contextlib
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pytest
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import LAUNCHER, REPOSITORY, environment, identity, variables
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Every, Keep
from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.errors import HoldfastTrainError, WriterLostError
from holdfast_train.format.names import CheckpointName
from holdfast_train.save.messages import Open
from holdfast_train.save.saver import Saver
from holdfast_train.save.training_state import TrainingState
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
    trainer = start(storage, tmp_path, f"{end} if step == 5 else None", every=Every(5))
    _, err = trainer.communicate(timeout=60)
    assert newest(storage) == (5, bytes([5]) * SIZE), err
    assert trainer.returncode != 0


def test_a_trainer_goes_on_without_its_writer(storage: FolderStorage, tmp_path: Path) -> None:
    shown = tmp_path / "step"
    body = f"time.sleep(0.01); open({str(shown)!r}, 'w').write(str(step))"
    trainer = start(storage, tmp_path, body, every=Every(5))
    wait_for(lambda: storage.keys("manifests/"), 30, "the first commit")
    writer = writer_of(psutil.Process(trainer.pid))
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


class State:
    """Bytes that are all alike, so that a mixture of two steps shows."""

    def __init__(self) -> None:
        self.values = np.zeros(SIZE, np.uint8)

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise NotImplementedError


LIMITED: Final = """
# There is no memory for a second arena, where the file LIMITED exists.
import mmap, os
original, count = mmap.mmap, [0]
def limited(*args):
    count[0] += 1
    if count[0] == 2 and os.path.exists(os.environ["LIMITED"]):
        raise OSError(12, "Cannot allocate memory")
    return original(*args)
mmap.mmap = limited
"""


def test_a_writer_that_has_failed_is_dead_before_its_arena_is_used_again(
    storage: FolderStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if its upload goes on while the next state is copied: a commit of mixed steps with correct checksums."""
    limited = tmp_path / "limited"
    limited.touch()
    (tmp_path / "sitecustomize.py").write_text(LIMITED)
    monkeypatch.setenv("LIMITED", str(limited))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{REPOSITORY / 'images/trainer'}")
    where = environment(storage.uri, upload_rate=1)  # a byte a second
    checkpoints = Checkpoints(storage, where.identity, Keep())
    checkpoints.start("Auto")
    state, results = State(), list[Saved | HoldfastTrainError]()
    saver = Saver(
        Open(where, 0, 1, checkpoints.log.fence),
        TrainingState({"state": state}, {}),
        lambda _, result: results.append(result),
    )
    with contextlib.closing(saver):
        saver.begin(CheckpointName.new(1, 1), 1, patience=0.0)
        writer = writer_of(psutil.Process())
        assert writer is not None
        state.values[:] = 2
        saver.begin(CheckpointName.new(2, 1), 2, patience=0.0)  # it needs a second arena
        assert saver.wait(lambda: 60.0)
        assert not writer.is_running()
        assert isinstance(results[-1], WriterLostError)
        limited.unlink()
        state.values[:] = 3
        saver.begin(CheckpointName.new(3, 1), 3, patience=0.0)
        assert saver.wait(lambda: math.inf)
    assert isinstance(results[-1], Saved)
    assert newest(storage) == (3, bytes([3]) * SIZE)


def writer_of(trainer: psutil.Process) -> psutil.Process | None:
    for process in trainer.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie has no command line
            if "holdfast_train.save.writer" in process.cmdline():
                return process
    return None
