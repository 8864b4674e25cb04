"""One trainer, and one writer, in a process that was forked for it: the real ones, which say what they are doing."""

import json
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from tests.torture.phases import Slot
from tests.torture.state import Training, differences, expected

from holdfast_protocol.report import Resumed
from holdfast_train.commitlog import checkpoints, orphans
from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.environment import Environment
from holdfast_train.errors import FencedError
from holdfast_train.format import manifest
from holdfast_train.run import run as session
from holdfast_train.save import coordinator, saver, upload
from holdfast_train.save.capture import Capture
from holdfast_train.save.channel import Channel
from holdfast_train.save.in_flight_lock import InFlightLock
from holdfast_train.save.writer import main
from holdfast_train.save.writer_process import WriterProcess
from holdfast_train.storage import s3_upload
from holdfast_train.timings import Timings

ORPHAN_SECONDS = 0.5
S3_PART_BYTES = 8 << 20  # S3 wants 5 MiB or more in each part but the last


def train(order: dict[str, Any], slot: Slot, requests: socket.socket) -> int:
    """One attempt, from its restore on, until it is killed or has done `order["goal"]` steps. Its exit code."""
    torch.set_num_threads(1)
    _watch_trainer(slot, order, requests)
    training = Training(order["seed"])
    where = Environment.read(order["variables"])
    assert where is not None
    try:
        with session.Run(**training.objects, environment=replace(where, timings=Timings(retry=0.05))) as run:
            _report(order, what="resumed", step=run.step, **_restored(run))
            if run.step and (wrong := differences(training.state(), expected(order["seed"], run.step))):
                _report(order, what="wrong", step=run.step, text="; ".join(wrong[:3]))
            with slot.during("training"):
                for step in run.steps(order["goal"]):
                    training.train(step + 1)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def write(order: dict[str, Any], slot: Slot, channel: int, lock: int) -> int:
    """A writer, as `start_writer` starts one."""
    _shrink(order)
    upload.Upload.run = slot.watching("upload", _telling_of_fences(order, upload.Upload.run))
    found = checkpoints.Checkpoints
    found.publish = slot.watching("commit", found.publish)
    found.sweep = slot.watching("sweep", found.sweep)
    slot.enter("idle")
    return main([str(channel), str(lock)])


def _telling_of_fences(order: dict[str, Any], run: Callable[..., Any]) -> Callable[..., Any]:
    def told(*args: Any) -> Any:
        try:
            return run(*args)
        except FencedError:  # its trainer may be dead, and nobody else would hear of it
            _report(order, what="fenced")
            raise

    return told


def _shrink(order: dict[str, Any]) -> None:
    """Several objects of some megabytes where gigabytes have them; orphans that are old after half a second."""
    orphans.ORPHAN_SECONDS = ORPHAN_SECONDS
    manifest.PART_BYTES = order["part"]
    s3_upload.LEAST_PART_BYTES = S3_PART_BYTES


def _watch_trainer(slot: Slot, order: dict[str, Any], requests: socket.socket) -> None:
    _shrink(order)
    slot.enter("start")
    session.restore = slot.watching("restore", session.restore)
    session.Run._resume = slot.watching("restore", session.Run._resume)

    def capture(*args: Any, on_copied: Any, on_failed: Any, **more: Any) -> Capture:
        leave = slot.enter("capture")
        size = args[1].size

        def told(count: int) -> None:
            on_copied(count)
            if count >= size:
                leave()

        return Capture(*args, on_copied=told, on_failed=lambda why: (on_failed(why), leave()), **more)

    def start_writer(lock: InFlightLock) -> WriterProcess:
        ours, theirs = socket.socketpair()
        alive, life = os.pipe()
        with theirs:
            socket.send_fds(requests, [json.dumps(order).encode()], [theirs.fileno(), lock.descriptor, life])
        os.close(life)

        def end() -> None:
            os.read(alive, 1)  # returns when the writer, which is no child of this process, is dead
            os.close(alive)

        return WriterProcess(Channel(ours), end)

    heard = coordinator.SaveCoordinator._on_result

    def on_result(self: Any, name: Any, result: Any) -> None:
        if isinstance(result, Saved):
            _report(order, what="saved", step=result.step, uri=result.uri)
        heard(self, name, result)

    saver.Capture = capture
    saver.start_writer = start_writer
    coordinator.SaveCoordinator._on_result = on_result


def _restored(run: Any) -> dict[str, Any]:
    found = run._progress.resumed_from or Resumed(0, "", "")
    return {"uri": found.uri or None, "note": found.note, "fence": run._checkpoints.log.fence.seq}


def _report(order: dict[str, Any], **body: Any) -> None:
    """One packet, which arrives whole or not at all, and arrives although its sender is killed the moment after."""
    os.write(order["reports"], json.dumps({**body, "trial": order["trial"]}).encode())
