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


# Its child ends at a line on stdin, and is never collected. (A shell may collect its child before anyone looks.)
LEAVES_A_ZOMBIE = """
import os, signal
if os.fork() == 0:
    print("up", flush=True)
    os.read(0, 1)
    os._exit(0)
while True: signal.pause()
"""


# Breaks if a process that has ended, but is not collected yet, counts as one that runs.
def test_a_process_that_has_ended_is_no_descendant() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEAVES_A_ZOMBIE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert len(descendants(process.pid)) == 1
        process.stdin.write(b"\n")
        process.stdin.flush()
        wait_for(lambda: descendants(process.pid) == [], 20, "the end of the child")
        assert Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        process.kill()


SPARES = """
import os, subprocess
from holdfast_train.pod.launcher.process_tree import descendants, end_descendants, end_tree, parent_of
shells = [subprocess.Popen(["sh", "-c", "sleep 3600 & wait"]) for _ in range(2)]
while len(descendants(os.getpid())) != 4: pass
left = end_descendants(30, [shells[0].pid])
below = descendants(shells[0].pid)
print(left == [], descendants(os.getpid()) == [shells[0].pid, *below], parent_of(below[0]) == shells[0].pid)
end_tree(shells[0].pid)
shells[0].wait()
def lives(pid):
    try: text = open(f"/proc/{pid}/stat").read()
    except OSError: return False
    return text.rpartition(")")[2].split()[0] not in "ZX"  # init inherits it, and may collect it later
while lives(below[0]): pass
print(descendants(os.getpid()))
"""


# Breaks if what belongs to no program ends with a program, or if a process below it lives on when it is ended.
def test_children_that_are_left_out(tmp_path: Path) -> None:
    found = subprocess.run([sys.executable, "-c", SPARES], capture_output=True, text=True, timeout=60, check=False)
    assert (found.stdout, found.stderr) == ("True True True\n[]\n", "")


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


# Breaks if a process that waits for the next attempt is ended, or if one that it has started lives on.
ENDS_ALL_BUT_ONE = """
import os, subprocess, sys
from holdfast_train.pod.launcher.process_tree import descendants, end_descendants
starts = "import subprocess, time; subprocess.Popen(['sleep', '3600']); print('up', flush=True); time.sleep(3600)"
kept = subprocess.Popen([sys.executable, "-c", starts], stdout=subprocess.PIPE)
kept.stdout.readline()
left = end_descendants(30, but=kept.pid)
print(left, descendants(os.getpid()) == [kept.pid])
kept.kill()
"""


def test_a_process_that_waits_is_not_ended() -> None:
    command = [sys.executable, "-c", ENDS_ALL_BUT_ONE]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (found.stdout, found.stderr) == ("[] True\n", "")
