"""What a program prints when a process that it has started failed: its own traceback, after the words of the process.

`accelerate launch` and scripts with `subprocess.run(..., check=True)` print the command that failed as their last line,
so the reason stands further above. `torch.multiprocessing.spawn` prints how the process ended. All of them exit with
code 1, even if the process that failed had another exit code.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from holdfast_protocol.verdict import ROOT_CAUSE

OWN_CODE = "1"  # of a program that ends with an exception: nothing to add if the process ended with the same one
_TRACEBACK = "Traceback (most recent call last):"
_ACCELERATE = "accelerate/commands/launch"  # a file that only starts the script
_COMMAND = re.compile(r"subprocess\.CalledProcessError: Command ")
_HOW = re.compile(r"(?:returned non-zero exit status (?P<code>\d{1,3})|died with .*?(?P<signal>\d{1,2})>?)\.$")
_SPAWNED = re.compile(
    r"torch\.multiprocessing\.spawn\.ProcessExitedException: process (?P<number>\d+) terminated with "
    r"(?:exit code (?P<code>\d{1,3})|signal (?P<signal>SIG[A-Z0-9]+))$"
)
_TAKEN_DOWN = re.compile(
    r"^terminate called without an active exception|resource_tracker: |^ *warnings\.warn\(|destroy_process_group\(\)"
    r"|^I\d{4} \d\d:\d\d:\d\d[.\d]* \d+ \S+\.py:\d+\]"  # what modules of torch log at the end of Python
)


def without_command(lines: Sequence[str]) -> tuple[list[str], str]:
    """The lines without the traceback of a program that only started another one; and how that one ended.

    The traceback stays if it may be the only one that says why: of a script whose last command failed without one.

    The second is a line that begins with ROOT_CAUSE, and empty if the lines do not say more. An exit code is negative
    if a signal ended the process.
    """
    own, cause = list(lines), ""
    while own and _COMMAND.match(own[-1]) and _TRACEBACK in own:
        if how := _HOW.search(own[-1]):  # that of the innermost command is found last
            code = how["code"] or str(-int(how["signal"]))
            cause = "" if code == OWN_CODE else f"{ROOT_CAUSE}a process that it started, exitcode: {code}"
        begin = _last_traceback(own)
        if not any(_ACCELERATE in line for line in own[begin:]) and not _ends_with_exception(own[:begin]):
            return own, cause
        del own[begin:]
    if own and (spawned := _SPAWNED.match(own[-1])):
        code = spawned["code"] or str(-getattr(signal, spawned["signal"], 0))
        cause = f"{ROOT_CAUSE}process {spawned['number']}, exitcode: {code}"
    return own, cause


def _last_traceback(lines: Sequence[str]) -> int:
    return len(lines) - 1 - lines[::-1].index(_TRACEBACK)


def _ends_with_exception(lines: Sequence[str]) -> bool:
    """True if the last lines are a traceback and its exception."""
    if _TRACEBACK not in lines:
        return False
    after = lines[_last_traceback(lines) + 1 :]
    return sum(not line.startswith(" ") and not _TAKEN_DOWN.search(line) for line in after) == 1


def last_word(lines: Sequence[str]) -> str:
    """The last line that says something of the program, and not of how its process is taken down. Empty without any.

    After a crash, Python's faulthandler writes stacks: its first line says what the crash was.
    """
    if crash := next((line for line in reversed(lines) if line.startswith("Fatal Python error: ")), ""):
        return crash.strip()
    said = next((line for line in reversed(lines) if not _TAKEN_DOWN.search(line)), "")
    return (said or (lines[-1] if lines else "")).strip()
