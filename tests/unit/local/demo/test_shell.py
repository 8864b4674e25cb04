"""Commands that the demo shows and runs."""

import io
import os
import shlex
import sys
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from holdfast_local.demo.errors import DemoError
from holdfast_local.demo.shell import Shell, typed

PRINTS = "import os, sys; print('in', os.getcwd()); print(os.environ['WORD'], '[bold]'); sys.exit(3)"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(Console(file=io.StringIO(), width=40), tmp_path, {"WORD": "given"})


def printed(shell: Shell) -> list[str]:
    assert isinstance(shell.out.file, io.StringIO)
    return shell.out.file.getvalue().splitlines()


def test_the_command_and_its_output_are_shown_and_kept(shell: Shell) -> None:
    assert shell.run(sys.executable, "-c", PRINTS, may_fail=True) == 3
    command, *lines = printed(shell)
    assert command.startswith(f"$ {shlex.quote(sys.executable)} -c 'import os")
    assert lines == [f"in {shell.folder}", "given [bold]"]
    assert [line.plain for line in shell.said] == [command, *lines]


# Breaks if the demo goes on after a command that failed, or leaves half an output for the next one.
def test_a_command_that_fails_ends_the_demo(shell: Shell) -> None:
    with pytest.raises(DemoError, match=r"ended with exit code 3"):
        shell.run(sys.executable, "-c", PRINTS, into="out")
    assert not (shell.folder / "out").exists()


def test_output_into_a_file(shell: Shell) -> None:
    shell.run(sys.executable, "-c", "print('{}')", into="out.json")
    assert (shell.folder / "out.json").read_text() == "{}\n"
    assert [line.endswith("> out.json") for line in printed(shell)] == [True]
    assert typed(["a", "b c"], "d e") == "a 'b c' > 'd e'"


# Breaks if Ctrl-C ends the demo and leaves a command, or what it started, behind.
def test_an_interrupt_ends_the_command_and_what_it_started(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    pids: list[int] = []

    def interrupt(line: object) -> None:
        if str(line).isdigit():
            pids.append(int(str(line)))
            raise KeyboardInterrupt

    monkeypatch.setattr(Shell, "say", lambda _self, text: interrupt(text))
    with pytest.raises(KeyboardInterrupt):
        shell.run(sys.executable, "-c", program)
    gone, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=30)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE], (gone, alive)
    assert pids
    assert pids[0] != os.getpid()
