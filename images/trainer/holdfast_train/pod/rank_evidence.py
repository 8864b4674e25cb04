"""What a rank of a training that hangs tells its launcher: the stacks of its threads, and where its collectives are.

The launcher asks (`launcher/hang/gather.py`). A thread answers: it writes the stacks of all threads, and what torch's
flight recorder knows. It holds Python's interpreter lock (GIL) meanwhile, so no other thread changes its stack.

A thread that needs the lock cannot answer in a process that is stopped, or whose native code keeps the lock. There,
Python's faulthandler writes the stacks on a signal. It takes no lock, so it may read a frame that another thread has
just freed, which ends the process. The launcher sends that signal only where nothing else answers.
"""

import faulthandler
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Final

from holdfast_train.pod.launcher.hang.gather import ANSWER, ASK, END_SIGNAL, GO_ON_SIGNAL, STACKS
from holdfast_train.say import say

LAST: Final = 8  # collectives of each process group that are kept
END: Final = b"e"
# By backend: a function of torch that returns the flight recorder as JSON. Versions of torch have some of them.
RECORDERS: Final = {"gloo": "_dump_fr_trace_json", "nccl": "_dump_nccl_trace_json"}


class _Answers:
    """Answers in one folder, until `close`. OSError if nothing can be written there."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._answer = folder / ANSWER.format(rank)
        pipe = folder / ASK.format(rank)
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe, 0o600)
        self._pipe = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)  # not for reading alone: that would wait for the launcher
        self._stacks = (folder / STACKS.format(rank)).open("wb")  # faulthandler keeps it open
        faulthandler.register(GO_ON_SIGNAL, file=self._stacks)
        faulthandler.register(END_SIGNAL, file=self._stacks, chain=True)  # to the default action: the process ends
        threading.Thread(target=self._run, name="rank-evidence", daemon=True).start()

    def _run(self) -> None:
        while os.read(self._pipe, 1) != END:
            faulthandler.dump_traceback(self._stacks)  # of all threads, and first: torch may not answer
            temporary = self._answer.with_suffix(".new")
            try:
                temporary.write_text(json.dumps(collectives()), encoding="utf-8")
                temporary.replace(self._answer)
            # No folder any more, or a version of torch that tells them in another form: the thread has to go on.
            except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
                say(f"the launcher is not told of the collectives: {type(error).__name__}: {error}")
        os.close(self._pipe)

    def close(self) -> None:
        """End the thread. The handlers stay: a signal that is on its way must not end the process."""
        os.write(self._pipe, END)


_answers: dict[int, _Answers] = {}  # by process: a fork has no thread of it


def answer_launcher(folder: str | None, rank: int) -> None:
    """Answer the launcher's questions in `folder` from now on, and in no other folder. No folder: in none."""
    before = _answers.pop(os.getpid(), None)
    if before is not None:
        before.close()
    if folder is None:
        return
    try:
        _answers[os.getpid()] = _Answers(Path(folder), rank)
    except OSError as error:
        say(f"if the training hangs, rank {rank} cannot say where: {error}")


def collectives() -> dict[str, Any]:
    """By process group: its name, the number of its newest collective here, and the last ones. Empty without torch.

    A number counts the collectives that this rank has entered, from 1 on.
    """
    torch: Any = sys.modules.get("torch._C._distributed_c10d")
    found: dict[str, Any] = {}
    for backend, name in RECORDERS.items():
        dump = getattr(torch, name, None)
        if dump is None:
            continue
        for entry in json.loads(dump()).get("entries", ()):
            if entry["is_p2p"]:
                continue
            group, what = entry["process_group"]
            one = found.setdefault(f"{backend} {group}", {"name": what, "number": 0, "last": []})
            one["number"] = max(one["number"], entry["collective_seq_id"])
            one["last"] = [*one["last"][-LAST + 1 :], _collective(entry)]
    return found


def _collective(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "number": entry["collective_seq_id"],
        "what": entry["profiling_name"],
        "state": entry["state"],
        "sizes": entry["input_sizes"],
    }
