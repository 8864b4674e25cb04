"""Processes of a container: the real ones, started here."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.cluster.agent_pods import alive
from tests.support.waiting import wait_for

from holdfast_local.agent.container import procfs
from holdfast_local.agent.container.process import ContainerProcess, Reaper, agent_mark, kill_marked


@pytest.fixture
async def reaper() -> AsyncIterator[Reaper]:
    """A reaper of this process's children."""
    made = Reaper()
    made.install()
    yield made
    made.remove()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Output(list[bytes]):
    """What a process wrote, and a wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._news = asyncio.Event()

    def feed(self, chunk: bytes) -> None:
        """Take output in."""
        self.append(chunk)
        self._news.set()

    async def until(self, text: bytes) -> bytes:
        """Everything so far, once the text is in it."""
        while text not in (seen := b"".join(self)):
            await asyncio.wait_for(self._news.wait(), 10)
            self._news.clear()
        return seen


def _start(reaper: Reaper, script: str, mark: str = "unit.1") -> tuple[ContainerProcess, Output]:
    process, output = ContainerProcess(reaper, mark), Output()
    process.start(["sh", "-c", script], {"PATH": os.environ["PATH"]}, "/", output.feed)
    return process, output


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
async def test_exit_codes(reaper: Reaper, script: str, code: int) -> None:
    """Would break: signal n is 128 + n, as a container runtime says it."""
    process, _ = _start(reaper, script)
    assert await asyncio.wait_for(process.wait(), 10) == code
    assert not process.running


async def test_output_is_read_to_its_end(reaper: Reaper) -> None:
    """Would break: the last lines of a failure are lost."""
    process, output = _start(reaper, "yes x | head -c 300000; echo end >&2")
    await asyncio.wait_for(process.wait(), 10)
    text = b"".join(output)
    assert len(text) == 300_004
    assert text.endswith(b"end\n")
    assert output[-1] == b""


async def test_sigterm_reaches_pid_1_only_and_kill_everything(reaper: Reaper) -> None:
    """Would break: a data loader dies first; a daemon in a session of its own survives."""
    script = (
        "sh -c 'trap \"echo child\" TERM; while :; do sleep 0.05; done' & echo pid=$!\n"
        "setsid sh -c 'sleep 1000 & echo pid=$!'\n"
        "trap 'echo told' TERM; echo up; while :; do sleep 0.05; done"
    )
    process, output = _start(reaper, script)
    text = await output.until(b"up\n")
    pids = [int(line[4:]) for line in text.splitlines() if line.startswith(b"pid=")]
    assert len(pids) == 2
    # While the shell between them ends, its child has no parent for a moment.
    wait_for(lambda: set(pids) < process.members(procfs.table()), 10, "both processes to be known")
    process.terminate()
    assert b"child" not in await output.until(b"told")
    await process.kill_tree()
    assert await asyncio.wait_for(process.wait(), 10) == 137
    assert not any(alive(pid) for pid in pids)


async def test_the_rest_ends_with_pid_1(reaper: Reaper) -> None:
    """Would break: a process that outlives its container, and zombies in the agent."""
    process, output = _start(reaper, "setsid sh -c 'sleep 1000 & echo pid=$!'; exit 3")
    assert await asyncio.wait_for(process.wait(), 10) == 3
    pid = int(b"".join(output).partition(b"=")[2])
    assert not alive(pid)


async def test_processes_of_two_containers_are_distinguished(reaper: Reaper) -> None:
    """Would break: the end of one container kills a daemon of another."""
    first, _ = _start(reaper, "exit 0", "unit.1")
    second, output = _start(reaper, "setsid sh -c 'sleep 1000 & echo pid=$!'; echo up; sleep 1000", "unit.2")
    text = await output.until(b"up")
    pid = int(text.partition(b"=")[2].split()[0])
    await asyncio.wait_for(first.wait(), 10)
    assert alive(pid)
    assert second.running
    await second.kill_tree()
    await second.wait()
    assert not alive(pid)


async def test_a_program_that_does_not_exist(reaper: Reaper) -> None:
    """Would break: a file descriptor lost at every failed start."""
    before = _open_files()
    process = ContainerProcess(reaper, "unit.1")
    with pytest.raises(FileNotFoundError):
        process.start(["/no/such/program"], {}, "/", lambda _: None)
    assert _open_files() == before
    assert process.members(procfs.table()) == set()


async def test_leftovers_of_an_earlier_life_are_found_by_their_mark(reaper: Reaper, tmp_path: Path) -> None:
    """Breaks if the trainers of an agent that was killed go on for ever."""
    mark = agent_mark(tmp_path)
    assert mark != agent_mark(tmp_path / "other")
    process, output = _start(reaper, "echo up; sleep 1000", f"{mark}.x")
    await output.until(b"up")
    assert await kill_marked(f"{mark}.") in (1, 2)  # a shell may become its last command
    assert await process.wait() == 137


async def test_memory_that_counts_is_anonymous(reaper: Reaper) -> None:
    """Would break: mapped files of a large library count as memory of the container."""
    process, output = ContainerProcess(reaper, "unit.1"), Output()
    script = "b = bytearray(64 << 20); print('up', flush=True); import time; time.sleep(1000)"
    process.start([sys.executable, "-c", script], {}, "/", output.feed)
    await output.until(b"up")
    charge = procfs.charged(process.pid)
    assert charge is not None
    assert 64 << 20 <= charge <= procfs.table()[process.pid].rss
    await process.kill_tree()
    await process.wait()
    assert procfs.charged(process.pid) is None
