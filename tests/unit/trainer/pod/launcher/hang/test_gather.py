"""What the launcher learns of ranks that hang, from real processes that go on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import wait_for

from holdfast_train.pod.launcher.hang.blame import place
from holdfast_train.pod.launcher.hang.gather import END_SIGNAL, gather, look
from holdfast_train.pod.launcher.process_tree import state_of
from holdfast_train.pod.launcher.verdict import RankVerdict

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

WAITS = """
import sys, threading
from pathlib import Path
from holdfast_train.pod.rank_evidence import answer_launcher
folder, rank = sys.argv[1:]
if rank != "2":
    answer_launcher(folder, int(rank))
def wait_for_data():
    threading.Event().wait()
threading.Thread(target=wait_for_data, daemon=True).start()
Path(folder, f"ready-{rank}").touch()
wait_for_data()
"""


def is_stopped(pid: int) -> bool:
    found = state_of(pid)
    return found is not None and found.letter == "T"


def test_each_rank_says_what_its_threads_do(tmp_path: Path) -> None:
    """Breaks if a rank writes nothing because it is stopped, or ends because its older library has no handler."""
    program = tmp_path / "train.py"
    program.write_text(WAITS)
    ranks = [subprocess.Popen([sys.executable, str(program), str(tmp_path), str(number)]) for number in range(3)]
    try:
        wait_for(lambda: all((tmp_path / f"ready-{number}").exists() for number in range(3)), 120, "the ranks")
        os.kill(ranks[1].pid, signal.SIGSTOP)
        wait_for(lambda: is_stopped(ranks[1].pid), 60, "a rank that is stopped")
        verdicts = [RankVerdict(n, "running", "", "", None, None, 0.0, one.pid) for n, one in enumerate(ranks)]
        looked = look(str(tmp_path), verdicts, {})
        assert not is_stopped(ranks[0].pid), "it goes on"
        assert [one["stacks"] != "" for one in looked] == [True, False, False]
        waits, stopped, silent = gather(str(tmp_path), verdicts, {0: 5, 1: 4})
        assert ranks[1].wait(60) == -END_SIGNAL, "it must not train on"
        wait_for(lambda: is_stopped(ranks[0].pid) and is_stopped(ranks[2].pid), 60, "ranks that are stopped")
    finally:
        for one in ranks:
            one.kill()
            one.wait()
    for found in (waits, stopped):
        assert found["stacks"].count("in wait_for_data") == 2
        assert place(found["stacks"]).startswith("wait_for_data (train.py, line ")
    assert [waits["state"], stopped["state"], silent["stacks"]] == ["S", "T", ""]
    assert [waits["step"], stopped["step"], silent["step"]] == [5, 4, None]
    assert (tmp_path / "collectives-0.json").read_text() == "{}", "there is no torch"
