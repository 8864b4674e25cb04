"""Commands that make variants: what is refused, and that no shell reads what they get."""

import os
import shlex
import sys
from pathlib import Path

import psutil
import pytest
from tests.support.waiting import wait_for

from holdfast_model.package import PackageError
from holdfast_model.package.convert import Conversion, conversions, environment, filled, run_command

TAKEN = ["onnx", "pt2"]


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_words_and_places() -> None:
    (one,) = conversions(["tflite=to '{pt2-fixed}' --with={calibration} \"a b\" {out}"], ["tflite=run {file}"], TAKEN)
    assert one == Conversion("tflite", ("to", "{pt2-fixed}", "--with={calibration}", "a b", "{out}"), ("run", "{file}"))
    assert (one.places, one.is_fixed, one.model) == (
        {"pt2-fixed", "calibration", "out"}, True, "tflite/model.tflite",
    )  # fmt: skip
    assert conversions([], [], TAKEN) == []


@pytest.mark.parametrize(
    ("commands", "runs", "said"),
    [
        (["to {out}"], [], "is not a variant with its command; allowed: as tflite=COMMAND"),
        (["x="], [], "is not a variant with its command"),
        (["x='to {out}"], [], "cannot be split into words"),
        (["x=to {pt2}"], [], r"the command lacks \{out\}"),
        (["x=to {tf} {out}"], [], r"\{tf\} is not known; allowed: \{calibration\}, \{onnx\}"),
        (["x=to {out}", "x=to {out}"], [], "'x' is given twice"),
        (["onnx=to {out}"], [], "the name is not allowed"),
        (["../x=to {out}"], [], "the name is not allowed"),
        (["README.md=to {out}"], [], "the name is not allowed"),
        (["x=to {out}"], ["y=run {file}"], "no --convert makes it"),
        (["x=to {out}"], ["x=run"], r"the command lacks \{file\}"),
    ],
)
def test_what_is_refused(commands: list[str], runs: list[str], said: str) -> None:
    with pytest.raises(PackageError, match=said):
        conversions(commands, runs, TAKEN)


# Breaks if a shell reads the words: a path or an argument could start other programs.
def test_a_value_is_one_word_and_no_shell_reads_it(tmp_path: Path) -> None:
    evil = f"$(touch {tmp_path / 'evil'}); `touch {tmp_path / 'evil'}` | x > {tmp_path / 'evil'} {{pt2}}"
    program = "import sys; open('said', 'w').write('|'.join(sys.argv[1:]))"
    words = shlex.split(f"{shlex.join([sys.executable, '-c', program])} '{{out}}' '*' '$HOME'")
    run_command(filled(words, {"out": evil}), tmp_path)
    assert (tmp_path / "said").read_text() == f"{evil}|*|$HOME"
    assert not (tmp_path / "evil").exists()


# Breaks if a converter, which may come from a stranger, gets the keys of the storage.
def test_a_command_gets_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_CHECKPOINT_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert environment().keys() & os.environ.keys() >= {"PATH", "CUDA_VISIBLE_DEVICES"}
    assert not [name for name in environment() if name.startswith(("HOLDFAST", "AWS", "PYTHON", "VIRTUAL"))]


def test_a_command_that_fails(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="ended with exit code 3: it is too old"):
        run_command(python("import sys; print('it is too old\\n\\n'); sys.exit(3)"), tmp_path)
    with pytest.raises(PackageError, match="ended with signal 6"):
        run_command(python("import os; os.abort()"), tmp_path)
    with pytest.raises(PackageError, match="nowhere cannot be started: No such file"):
        run_command(["nowhere"], tmp_path)


# Breaks if what a command prints is kept: it may print for hours.
def test_endless_output_is_not_kept(tmp_path: Path) -> None:
    program = "import sys; [sys.stdout.write('x' * 65536 + '\\n') for _ in range(2000)]; sys.exit('the last')"
    with pytest.raises(PackageError, match=r"exit code 1: the last$"):
        run_command(python(program), tmp_path)


def ends(pid: int) -> None:
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie", 10, "the child's end")


CHILD = "import time; time.sleep(600)"


# Breaks if only the command is killed: a container or a child would go on.
def test_a_command_that_takes_too_long_ends_with_its_children(tmp_path: Path) -> None:
    program = (
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {CHILD!r}]); "
        "open('pid', 'w').write(str(p.pid)); p.wait()"
    )
    with pytest.raises(PackageError, match="took over 3 s, and was ended"):
        run_command(python(program), tmp_path, seconds=3)
    ends(int((tmp_path / "pid").read_text()))


# Breaks if the end of the output is waited for: a process that was left behind has the pipe too.
@pytest.mark.parametrize("own_session", [False, True], ids=["group", "session"])
def test_a_command_that_leaves_a_process_behind(tmp_path: Path, own_session: bool) -> None:
    program = (
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {CHILD!r}], "
        f"start_new_session={own_session}); open('pid', 'w').write(str(p.pid))"
    )
    run_command(python(program), tmp_path, seconds=60)
    pid = int((tmp_path / "pid").read_text())
    if own_session:
        psutil.Process(pid).kill()
    ends(pid)


# Breaks if a command that closes its output is taken for one that has ended.
def test_a_command_without_output(tmp_path: Path) -> None:
    program = "import os, sys; os.close(1); os.close(2); open('said', 'w').write('x'); sys.exit(4)"
    with pytest.raises(PackageError, match=r"ended with exit code 4$"):
        run_command(python(program), tmp_path)
    with pytest.raises(PackageError, match="took over 1 s"):
        run_command(python(f"import os; os.close(1); os.close(2); {CHILD}"), tmp_path, seconds=1)
