"""The plain check of a program, without Holdfast: it trains, is killed after a save, starts again, resumes and ends."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.zoo.environments import environment
from tests.zoo.program import Program, variables

LONGEST = 300.0
QUIET = 0.3
LEAST_SAVES = 4


class CheckError(Exception):
    """A program does not do what the table says of it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the check saw: seconds and saves of the undisturbed run, and whether both runs left the same bytes."""

    seconds: float
    saves: int
    same: bool | None


def check(program: Program, place: Path) -> Found:
    """Run `program` undisturbed, and once killed; CheckError if it does not resume. `place`: an empty folder.

    Both runs have the same path, one after the other, because some programs note whole paths in their files.
    """
    env = {**variables(environment(program.group), program), "TMPDIR": str(place)}
    work = place / "work"
    fresh(program, work, env)
    began = time.monotonic()
    written = start(program, work, env, place / "undisturbed.log")
    seconds = time.monotonic() - began
    if re.search(program.resumed, (place / "undisturbed.log").read_text(errors="replace")):
        raise CheckError(f"`resumed` of {program.name} is found in the output of a run that did not resume")
    if written < LEAST_SAVES:
        raise CheckError(f"{program.name} was seen to save {written} times; at least {LEAST_SAVES} are wanted")
    expected = left(program, work)
    for name in expected:
        (place / "undisturbed" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(program.folder_in(work) / name, place / "undisturbed" / name)
    fresh(program, work, env)
    start(program, work, env, place / "killed.log", kill_after=max(1, written // 2))
    before = saves(program, work)
    start(program, work, env, place / "resumed.log")
    if not re.search(program.resumed, (place / "resumed.log").read_text(errors="replace")):
        raise CheckError(f"{program.name} did not resume; see {place / 'resumed.log'}; it had {before}")
    return Found(seconds, written, left(program, work) == expected if program.final else None)


def fresh(program: Program, work: Path, env: Mapping[str, str]) -> None:
    """Make the folder `work` again, with the data of the program."""
    shutil.rmtree(work, ignore_errors=True)
    program.folder_in(work).mkdir(parents=True)
    program.prepare(work)
    if program.prepare_command:
        line = program.line(work, of=program.prepare_command)
        done = subprocess.run(["sh", "-c", line], cwd=work, env=dict(env), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CheckError(f"`{line}` failed: {done.stdout[-1000:]}{done.stderr[-3000:]}")


def start(program: Program, work: Path, env: Mapping[str, str], log: Path, kill_after: int | None = None) -> int:
    """Run the program to its end, or kill it after `kill_after` saves. Returns how many saves it has written."""
    newest = {"HOLDFAST_NEWEST_CHECKPOINT": str(found[-1])} if (found := saves(program, work)) else {}
    began = time.monotonic()
    seen = {changed(path) for path in found}
    before = len(seen)
    with log.open("w") as output:
        command = ["sh", "-c", program.line(work)]
        process = subprocess.Popen(
            command, cwd=work, env={**env, **newest}, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            while process.poll() is None and time.monotonic() < began + LONGEST:
                if (newest_one := saves(program, work)[-1:]) and time.time() > (at := changed(newest_one[0])) + QUIET:
                    seen.add(at)
                if kill_after is not None and len(seen) - before >= kill_after:
                    break
                time.sleep(0.05)
            ended = process.poll()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if kill_after is None and ended != 0:
        raise CheckError(f"{program.name} ended with {ended}; see {log}\n{log.read_text(errors='replace')[-3000:]}")
    if kill_after is not None and ended is not None:
        raise CheckError(f"{program.name} ended before it could be killed, with {ended}; see {log}")
    return len(seen) - before


def changed(save: Path) -> float:
    """When the file or the folder changed last."""
    try:
        return max(part.stat().st_mtime for part in (save, *save.rglob("*")))
    except FileNotFoundError:
        return time.time()


def saves(program: Program, work: Path) -> list[Path]:
    """The saves of the program, the newest last."""
    folder = program.folder_in(work)
    return sorted((path for pattern in program.saves for path in folder.glob(pattern)), key=changed)


def left(program: Program, work: Path) -> dict[str, str]:
    """By path below the folder, a hash of the files that are compared."""
    folder = program.folder_in(work)
    files = sorted(path for path in folder.glob(program.final) if path.is_file()) if program.final else []
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
