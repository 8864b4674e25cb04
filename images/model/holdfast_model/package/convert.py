"""Variants that a command of the user makes: compilers of chips, and converters that need other libraries than torch.

A command is a list of words and runs without a shell. It has its own environment, or starts a container of its own.
"""

import os
import re
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast_model.package.errors import PackageError
from holdfast_protocol import variables

COMMAND: Final = "command"
"""The runtime of these variants in package.json."""
SOURCES: Final = ("safetensors", "pt2", "onnx")
FIXED_SOURCES: Final = ("pt2-fixed", "onnx-fixed")
CALIBRATION: Final = "calibration"
SECONDS: Final = 3600.0
MOST_OUTPUT: Final = 64 << 10
LOOK_SECONDS: Final = 0.2
NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_PLACE: Final = re.compile(r"\{([a-z0-9-]+)\}")
_PRIVATE: Final = (variables.PREFIX, "PYTHON", "VIRTUAL_ENV", "AWS_")
"""Beginnings of variables that commands do not get: keys of the storage, and those of this program's Python."""


@dataclass(frozen=True)
class Conversion:
    """One variant. `command` writes it; `run`, a worker, runs it: without one the variant is not tested."""

    name: str
    command: tuple[str, ...]
    run: tuple[str, ...] = ()

    @property
    def places(self) -> set[str]:
        """The names in braces in `command`."""
        return {place for word in self.command for place in _PLACE.findall(word)}

    @property
    def model(self) -> str:
        """The path of what the command writes, in the package."""
        return f"{self.name}/model.{self.name}"

    @property
    def is_fixed(self) -> bool:
        """True if it is made of a program whose sizes are fixed."""
        return bool(self.places & set(FIXED_SOURCES))


def conversions(commands: Sequence[str], runs: Sequence[str], taken: Sequence[str]) -> list[Conversion]:
    """Of `NAME=COMMAND`, each. `taken`: names of other variants. PackageError says what is not allowed."""
    workers = _named("--run", runs, {"file", "inputs", "outputs"}, "file")
    made = _named("--convert", commands, {*SOURCES, *FIXED_SOURCES, CALIBRATION, "out"}, "out")
    for name in made:
        if name in taken or not NAME.fullmatch(name):
            raise PackageError(
                f"--convert {name!r}: the name is not allowed; allowed: small letters, digits and -, at most 32, and "
                f"none of {', '.join(taken)}"
            )
    if other := [name for name in workers if name not in made]:
        raise PackageError(f"--run {other[0]!r}: no --convert makes it; needed: --convert '{other[0]}=COMMAND {{out}}'")
    return [Conversion(name, words, workers.get(name, ())) for name, words in made.items()]


def _named(option: str, texts: Sequence[str], allowed: set[str], needed: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, separator, command = text.partition("=")
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise PackageError(f"{option} {text!r} cannot be split into words: {error}") from error
        if not separator or not name or not words:
            raise PackageError(f"{option} {text!r} is not a variant with its command; allowed: as tflite=COMMAND")
        places = {place for word in words for place in _PLACE.findall(word)}
        if name in found:
            raise PackageError(f"{option} {name!r} is given twice; allowed: once for each variant")
        if unknown := sorted(places - allowed):
            known = ", ".join(f"{{{place}}}" for place in sorted(allowed))
            raise PackageError(f"{option} {name!r}: {{{unknown[0]}}} is not known; allowed: {known}")
        if needed not in places:
            raise PackageError(f"{option} {name!r}: the command lacks {{{needed}}}, a path that it has to get")
        found[name] = words
    return found


def filled(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The words with values for the names in braces. A value stays one word, also if it contains blanks."""
    return [_PLACE.sub(lambda found: values[found[1]], word) for word in words]


def environment() -> dict[str, str]:
    """The variables that a command gets."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE)}


def run_command(words: Sequence[str], folder: Path, seconds: float = SECONDS) -> None:
    """Run a command in `folder`. PackageError, with its last line, if it fails or takes longer than `seconds`."""
    try:
        process = subprocess.Popen(
            words, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise PackageError(f"the command {words[0]} cannot be started: {error.strerror or error}") from error
    with process:
        try:
            tail = _output(process, time.monotonic() + seconds)
            code = process.poll()
        finally:
            with suppress(ProcessLookupError):  # with all that it has started and left
                os.killpg(process.pid, signal.SIGKILL)
    if code is None:
        raise PackageError(f"the command {words[0]} took over {seconds:g} s, and was ended")
    if code:
        lines = [line for line in tail.decode("utf-8", "replace").splitlines() if line.strip()]
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        last = f": {lines[-1].strip()[:300]}" if lines else ""
        raise PackageError(f"the command {words[0]} ended with {how}{last}")


def _output(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """The last output of a command, when it has ended, or at `deadline` (monotonic).

    A process that it has left behind may keep the pipe open: the end of the command counts.
    """
    assert process.stdout is not None
    tail, is_open = b"", True
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline and (is_open or process.poll() is None):
            if not is_open:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
            elif selector.select(LOOK_SECONDS):
                chunk = os.read(process.stdout.fileno(), MOST_OUTPUT)
                tail, is_open = (tail + chunk)[-MOST_OUTPUT:], bool(chunk)
            elif process.poll() is not None:
                break
    return tail
