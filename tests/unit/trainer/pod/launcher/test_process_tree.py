"""All processes below the launcher end, wherever they have gone."""

import subprocess
import sys
from pathlib import Path

from tests.support.waiting import wait_for

from holdfast_train.pod.launcher.process_tree import descendants

# A child that ignores SIGTERM in a session of its own, whose parent ends at once; a child that starts another one.
ENDS_ALL = """
import os, subprocess, sys, time
from holdfast_train.pod.launcher.process_tree import adopt_orphans, descendants, end_descendants
adopt_orphans()
deaf = "import os, signal, time; signal.signal(15, signal.SIG_IGN); os.write(1, b'.'); time.sleep(3600)"
leaves = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {deaf!r}], start_new_session=True)"
waits = f"import subprocess, sys; subprocess.call([sys.executable, '-c', {deaf!r}])"
reading, writing = os.pipe()
for code in (leaves, waits): subprocess.Popen([sys.executable, "-c", code], stdout=writing)
os.read(reading, 1), os.read(reading, 1)
while len(descendants(os.getpid())) != 3: pass
left = end_descendants(30)
os.close(writing)
print(left, descendants(os.getpid()), os.read(reading, 1))
"""


def test_orphans_and_those_in_sessions_of_their_own_are_ended() -> None:
    found = subprocess.run([sys.executable, "-c", ENDS_ALL], capture_output=True, text=True, timeout=60, check=False)
    assert (found.stdout, found.stderr) == ("[] [] b''\n", "")


# Breaks if a process that has ended, but is not collected yet, counts as one that runs.
def test_a_process_that_has_ended_is_no_descendant() -> None:
    script = "sleep 3600 & echo up; read _; kill -9 $!; kill -STOP $$"  # a shell that is stopped collects nothing
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert len(descendants(process.pid)) == 1
        process.stdin.write(b"\n")
        process.stdin.flush()
        wait_for(lambda: descendants(process.pid) == [], 20, "the end of the shell's child")
        assert Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        process.kill()


STAYS = """
import os, subprocess
from holdfast_train.pod.launcher.process_tree import end_descendants
child, kill = subprocess.Popen(["sleep", "3600"]), os.kill
os.kill = lambda pid, number: None  # as for a process that hangs in a driver
print(end_descendants(0.1) == [child.pid])
kill(child.pid, 9)
"""


# Breaks if the launcher waits for ever for a process that cannot end.
def test_a_process_that_does_not_end_is_reported() -> None:
    found = subprocess.run([sys.executable, "-c", STAYS], capture_output=True, text=True, timeout=60, check=False)
    assert (found.stdout, found.stderr) == ("True\n", "")
