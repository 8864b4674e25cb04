"""When a training counts as hanging, and that a real one which is stopped is ended with words."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.trainer.pod_settings import pod_variables
from tests.support.trainer.pods import Pod
from tests.support.trainer.stores import stub_command, variables
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Stall
from holdfast_train.pod import evidence
from holdfast_train.pod.launcher import stall_watch
from holdfast_train.pod.launcher.process_tree import descendants
from holdfast_train.pod.launcher.stall_watch import AUTO_LEAST, Pace, Rank, read_pulses
from holdfast_train.pod.launcher.work import Work
from holdfast_train.pulse import Pulse
from holdfast_train.storage.folder import FolderStorage


def looks(pace: Pace, *seen: tuple[float, dict[int, Rank]], is_idle: bool = True) -> list[str]:
    return [pace.look(ranks, now, worked=0.0 if is_idle else 1e9) for now, ranks in seen]


def at(*steps: int | None, doing: str = "training") -> dict[int, Rank]:
    return {rank: Rank(doing, step) for rank, step in enumerate(steps)}


def test_a_duration_counts_from_the_last_step() -> None:
    *before, last = looks(Pace(20.0), (0, at(4)), (10, at(5)), (30, at(5)), (30.5, at(5)), is_idle=False)
    assert before == ["", "", ""]
    assert last == "no step for 20 s after step 5 (failure.stallTimeout: 20 s)"


def test_the_ranks_that_are_behind_are_named() -> None:
    *_, last = looks(Pace(20.0), (0, at(6, 5, 6, 5)), (21, at(6, 5, 6, 5)))
    assert last.endswith("; behind the others: rank 1, 3")


# Breaks if a start, a restore, a wait at the fence, a save or the end of a training is taken for a hang.
@pytest.mark.parametrize(
    "ranks",
    [{}, at(None), at(5, None), at(5, doing="starting"), at(5, doing="waiting"), at(5, doing="saving"),
     at(5, doing="finishing"), at(5) | {1: Rank("saving", 5)}],
)  # fmt: skip
@pytest.mark.parametrize("limit", [20.0, None])
def test_what_is_no_training_is_no_hang(ranks: dict[int, Rank], limit: float | None) -> None:
    assert not any(looks(Pace(limit), (0, at(3)), (1, at(4)), (2, at(5)), (3, ranks), (10**6, ranks)))


def test_auto_knows_nothing_before_a_pause_between_two_steps() -> None:
    assert not any(looks(Pace(None), (0, at(None, doing="starting")), (50, at(1)), (10**6, at(1))))
    pace = Pace(None)
    assert looks(pace, (0, at(1)), (1, at(2)), (2, at(3)), (2 + AUTO_LEAST, at(3))) == [""] * 4
    assert looks(pace, (3 + AUTO_LEAST, at(3)))[0]


# Breaks if a first evaluation, which takes longer than all steps before it, ends a good training.
def test_auto_waits_while_the_program_works() -> None:
    pace = Pace(None)
    looks(pace, (0, at(1)), (1, at(2)), (2, at(3)))
    assert not any(looks(pace, (500, at(3)), (5000, at(3)), is_idle=False))
    assert looks(pace, (5000 + AUTO_LEAST, at(3))) == [""]
    assert looks(pace, (5001 + AUTO_LEAST, at(3)))[0]


def waiting(worked: Callable[[int], float], seconds: int = 2000) -> int | None:
    """After how many seconds without a step Auto says that a training hangs which works for `worked(second)`."""
    pace = Pace(None)
    looks(pace, (0, at(1)), (1, at(2)), (2, at(3)))
    return next((second for second in range(seconds) if pace.look(at(3), 2.0 + second, worked=worked(second))), None)


# Breaks if threads that watch a program, such as those of a tracker, keep a hang from being noticed.
def test_auto_ends_a_training_that_hangs_with_threads_that_watch_it() -> None:
    assert waiting(lambda second: 8.0 if second % 15 == 0 else 0.04) == AUTO_LEAST + 1


# Breaks if a program that works now and then is ended, or one that has worked long, and then hangs, is not.
def test_auto_adds_up_the_work_of_a_program() -> None:
    assert waiting(lambda second: 20.0 if second % 15 == 0 else 0.0) is None
    found = waiting(lambda second: 20.0 * (second < 1000))
    assert found is not None
    assert 1000 + 0.9 * AUTO_LEAST < found <= 1001 + AUTO_LEAST


# Breaks if the memory of the launcher grows while it waits for hours.
def test_the_work_of_a_program_is_kept_in_parts() -> None:
    pace = Pace(None)
    looks(pace, (0, at(1)), (1, at(2)), (20001, at(3)))
    assert not any(pace.look(at(3), 20001.0 + second, worked=1.2) for second in range(50_000))
    assert len(pace._worked) < 2 * stall_watch.PARTS


# Breaks if, on one of several nodes, a program ends that waits for another node, or one that hangs later is not ended.
def test_auto_on_several_nodes_asks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_watch, "AUTO_LEAST", 0.1)
    monkeypatch.setattr(stall_watch, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(Work, "look", lambda *_: 0.0)  # this process, and what else runs below it, counts as idle
    asked: list[bool] = []

    def end(how: str, *, only_own: bool) -> bool:
        assert how.startswith("no step for ")
        asked.append(only_own)
        return len(asked) == 3

    variables = pod_variables({"HOLDFAST_NODES": "2"}, stall=Stall())
    watch = stall_watch.StallWatch(str(tmp_path), variables, end)
    with watch:
        pulse = Pulse(str(tmp_path), 0)
        steps = iter(range(1, 10**6))

        def has_learnt() -> bool:
            pulse.beat("training", next(steps))
            return watch._pace.limit is not None

        wait_for(has_learnt, 60, "two pauses between steps")
        wait_for(lambda: not watch._thread.is_alive(), 60, "the end of the watch")
    assert asked == [True] * 3


# Breaks if a training that hangs goes on because the process that saves its folder works beside it.
def test_what_processes_beside_the_program_do_is_no_work_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_out, looked = list[object](), threading.Event()

    def below(_: int, without: object) -> list[int]:
        left_out.append(without)
        looked.set()
        return []

    monkeypatch.setattr(stall_watch, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(stall_watch, "descendants", below)
    with stall_watch.StallWatch(str(tmp_path), pod_variables({}, stall=Stall()), lambda *_, **__: True, lambda: [7]):
        Pulse(str(tmp_path), 0).beat("training", 1)
        assert looked.wait(30)
    assert left_out[0] == [7]


# Breaks if a node that waits for another one is asked each second, or never again.
def test_a_hang_that_is_put_off_comes_again() -> None:
    pace = Pace(None)
    looks(pace, (0, at(1)), (1, at(2)), (2, at(3)))
    assert looks(pace, (3 + AUTO_LEAST, at(3)))[0]
    pace.put_off(4 + AUTO_LEAST)
    assert looks(pace, (4 + 2 * AUTO_LEAST, at(3))) == [""]
    assert looks(pace, (5 + 2 * AUTO_LEAST, at(3)))[0].startswith(f"no step for {3 + 2 * AUTO_LEAST:.0f} s")


def test_auto_learns_pauses_and_no_saves() -> None:
    pace, saving = Pace(None), at(3, doing="saving")
    looks(pace, (0, at(1)), (1, at(2)), (101, at(3)), (102, saving), (9000, at(3)), (9100, at(4)))
    assert pace.limit == 5 * 100
    many = Pace(None)
    looks(many, *[(float(step), at(step)) for step in range(500)], (700.0, at(500)))
    assert many.limit == 2 * 201, "an evaluation is in no percentile, and yet a pause"


@given(st.lists(st.floats(0.1, 59.0), min_size=3, max_size=50))
def test_auto_ends_no_training_that_goes_on_as_before(pauses: list[float]) -> None:
    pace, now = Pace(None), 0.0
    for step, pause in enumerate(pauses):
        now += pause
        assert looks(pace, (now - pause / 2, at(step)), (now, at(step + 1))) == ["", ""]


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    Pulse(str(tmp_path), 3).beat("training", 7)
    (tmp_path / "pulse-1").write_text("")
    (tmp_path / "pulse-x").write_text("training 5")
    assert read_pulses(str(tmp_path)) == {3: Rank("training", 7)}


# Breaks if SIGSTOP, which also stops the thread that reports, is not noticed, or a stopped program is not ended.
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_training_that_is_stopped_is_ended_as_stalled(tmp_path: Path) -> None:
    pulses = tmp_path / "verdicts"
    more = {
        "stall": Stall(5),  # a busy machine may give it no time for some seconds
        "HOLDFAST_VERDICT_DIR": str(pulses),
    }
    command = stub_command("--steps=1000000", "--step-seconds=0.05")
    pod = Pod(tmp_path, command, **variables(f"file://{tmp_path}/prefix", **more))
    try:
        wait_for(lambda: any((one.step or 0) > 10 for one in read_pulses(str(pulses)).values()), 60, "some steps")
        program = descendants(pod.process.pid)[0]
        os.kill(program, signal.SIGSTOP)
        stopped_at = time.monotonic()
        found = pod.end()
    finally:
        pod.process.kill()
    assert time.monotonic() - stopped_at > 3
    assert (found["outcome"], found["reason"], found["peer"]) == ("failed", "Stalled", False)
    assert "no step for" in found["message"]
    assert "; a rank was in " in found["message"], "what Python's faulthandler has written"
    (kept,) = evidence.read(FolderStorage(tmp_path / "prefix"))
    assert found["message"].startswith(kept["why"] + "; a rank was in ")
    assert (kept["attempt"], kept["ranks"][0]["state"]) == (1, "T")
    assert "most recent call first" in kept["ranks"][0]["stacks"]
    assert kept["ranks"][0]["stacks"].rstrip() in pod.output
    assert "holdfast evidence shows it" in pod.output


# A launcher whose evidence cannot be read. In a process of its own: it collects and ends all processes below it.
WITHOUT_EVIDENCE = """
import sys
from holdfast_train.pod.launcher import program, stall_watch
from holdfast_train.pod.launcher.hang import record
def fail(*_):
    raise PermissionError("stacks-0")
record.record, stall_watch.LOOK_SECONDS = fail, 0.02
hangs = "import pathlib, sys, time\\nwhile True: pathlib.Path(sys.argv[1]).write_text('training 3'); time.sleep(0.05)"
command = [sys.executable, "-c", hangs, sys.argv[1] + "/pulse-0"]
end = program.Program(command, {"HOLDFAST_SETTINGS": '{"stall":{"timeout":1}}'}).run(sys.argv[1])
print(end.signal, end.stalled)
"""


# Breaks if a training that hangs goes on for ever because a file of its evidence cannot be read.
def test_a_training_whose_evidence_cannot_be_read_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_EVIDENCE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith("9 no step for ")
    assert "the evidence of the hang is not complete: stacks-0" in done.stderr


# A launcher with Auto that is quick, and a program that saves after three steps, as SAVE says.
SAVING = """
import sys
from pathlib import Path
from holdfast_train.pod.launcher import program, room, stall_watch, work
stall_watch.LOOK_SECONDS, stall_watch.AUTO_LEAST = 0.02, 1.0
room.GROUPS = work.NETWORK = Path("/nothing")  # what other programs on this machine write and send does not count
save = '''
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
for step in range(1, 21):  # the launcher learns the pace from what it sees, and on a busy machine it sees few of them
    (folder / "pulse-0").write_text(f"training {step}")
    time.sleep(0.1)
SAVE
'''
end = program.Program([sys.executable, "-c", save, sys.argv[1]], {"HOLDFAST_SETTINGS": '{"stall":{}}'}).run(sys.argv[1])
print(end.code, end.stalled)
"""
SLOWLY = """
with open(folder / "step_3.pt", "wb", buffering=0) as file:
    for _ in range(40):
        file.write(bytes(64 << 10))
        time.sleep(0.1)
"""
INTO_NOTHING = """
os.mkfifo(folder / "step_3.pt")
reader = os.open(folder / "step_3.pt", os.O_RDONLY | os.O_NONBLOCK)
with open(folder / "step_3.pt", "wb", buffering=0) as file:
    while True:  # a signal ends one call, and nothing reads
        file.write(bytes(64 << 20))
"""


# Breaks if a save onto a slow storage is ended as a hang, or if one onto a storage that takes nothing goes on for ever.
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs /proc")
@pytest.mark.parametrize(("save", "found"), [(SLOWLY, "0 \n"), (INTO_NOTHING, "None no step for ")])
def test_a_slow_save_is_not_a_hang(tmp_path: Path, save: str, found: str) -> None:
    command = [sys.executable, "-c", SAVING.replace("SAVE", save), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith(found), done.stdout + done.stderr
