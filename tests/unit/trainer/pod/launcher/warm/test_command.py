"""Only commands of which it is certain that they are Python programs are started in a process that waits."""

from pathlib import Path

import pytest

from holdfast_train.pod.launcher.warm.command import PythonCommand, read_command


@pytest.mark.parametrize(
    ("command", "interpreter", "module", "script"),
    [
        ("python train.py --lr 1", "python", "", "train.py"),
        ("/bin/python3.11 -u -X dev -OB -W error run.py -m x", "/bin/python3.11 -u -X dev -OB -W error", "", "run.py"),
        ("python3 -Xdev -m torch.distributed.run train.py", "python3 -Xdev", "torch.distributed.run", ""),
        ("python3.13t -c pass", "python3.13t", "", ""),
        ("python -P .", "python -P", "", "."),
    ],
)
def test_python(command: str, interpreter: str, module: str, script: str) -> None:
    assert read_command(command.split(), {}) == PythonCommand(tuple(interpreter.split()), module, script)


# Breaks if another launcher is taken for torchrun: it may prepare the imports of its own process.
@pytest.mark.parametrize(
    ("command", "is_torchrun"),
    [
        ("python -m torch.distributed.run train.py", True),
        ("python -m torch.distributed.launch train.py", True),
        ("python /opt/bin/torchrun train.py", True),
        ("python train.py torchrun", False),
        ("python -m torchrun", False),
        ("python -c torchrun", False),
    ],
)
def test_torchrun(command: str, is_torchrun: bool) -> None:
    found = read_command(command.split(), {})
    assert found is not None
    assert found.is_torchrun is is_torchrun


# Breaks if the program would run where a process has to wait: some of these keep Python from importing sitecustomize.
@pytest.mark.parametrize(
    "option", ["-I", "-E", "-S", "-uE", "-i", "-V", "-h", "-", "--check-hash-based-pycs", "-cpass"]
)
def test_options_that_are_not_known_to_be_safe(option: str) -> None:
    assert read_command(["python", option, "train.py"], {}) is None


@pytest.mark.parametrize(
    "command", ["python", "python -u", "python -m", "python -X dev", "pythonw train.py", "sh -c x"]
)
def test_what_is_no_script_of_python(command: str) -> None:
    assert read_command(command.split(), {"PATH": "/bin"}) is None


@pytest.mark.parametrize(
    ("first_line", "interpreter"),
    [
        (b"#!/opt/venv/bin/python\n", "/opt/venv/bin/python"),
        (b"#! /usr/bin/python3 -u \nimport torch", "/usr/bin/python3 -u"),
        (b"#!/usr/bin/env python3\n", "python3"),
        (b"#!/usr/bin/env -S python3 -u\n", None),
        (b"#!/usr/bin/python3 -I\n", None),
        (b"#!/bin/sh\n", None),
        (b"#!/usr/bin/env\n", None),
        (b"#!\n", None),
        (b"#!/usr/bin/python3", None),  # the line has no end
        (b"\x7fELF\n", None),
        (b"", None),
    ],
)
def test_a_script_that_names_its_interpreter(tmp_path: Path, first_line: bytes, interpreter: str | None) -> None:
    script = tmp_path / "bin" / "torchrun"
    script.parent.mkdir()
    script.write_bytes(first_line)
    environment = {"PATH": f"{tmp_path}:{script.parent}"}
    (tmp_path / "torchrun").mkdir()  # a folder is not started
    assert read_command(["torchrun", "train.py"], environment) is None  # nor a file that may not be
    script.chmod(0o755)
    expected = None if interpreter is None else PythonCommand(tuple(interpreter.split()), script=str(script))
    assert read_command(["torchrun", "train.py"], environment) == expected
    assert read_command([str(script), "train.py"], {}) == expected
    assert read_command(["no-such-program"], environment) is None
