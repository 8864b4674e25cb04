"""The demo cleans up if it is stopped on the way. From a plan to a package it plays to its end."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.guard import temporary_folder
from tests.support.waiting import wait_for


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short folder for the demo's files: pytest's own are too long for a unix socket."""
    with temporary_folder("hf-") as made:
        yield made


def processes_below(folder: Path) -> list[str]:
    """Command lines of every process that was given a path in the folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(folder) in line:
            found.append(line)
    return found


# Breaks if an interrupted demo leaves a cluster, an operator or a training behind.
@pytest.mark.thorough
@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_demo_leaves_nothing_behind(folder: Path, number: signal.Signals) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "holdfast_cli", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(demo.stdout or ()), daemon=True)
    reader.start()
    try:
        wait_for(lambda: [line for line in lines if " Running " in line], 180, "the job to run")
        assert any("holdfast.runtime run" in line for line in processes_below(folder))
        demo.send_signal(number)
        assert demo.wait(60) == 130, "".join(lines)
    finally:
        demo.kill()
        demo.wait()
        reader.join(10)
    assert wait_for(lambda: not processes_below(folder), 20, "every process to end")
    assert not list(folder.iterdir())


# Breaks if any command of the demo fails, a check is not true, or it leaves anything but the results.
@pytest.mark.cluster
@pytest.mark.thorough
def test_from_a_plan_to_an_evaluated_package(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast_cli", "demo", "--package", "--into", str(folder / "results")],
        capture_output=True, text=True, timeout=540, check=False, env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip
    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert "\x1b" not in said, "a pipe gets no colours"
    commands = re.findall(r"^\$ (.*)$", said, re.MULTILINE)
    assert [" ".join(command.split()[:2]) for command in commands] == [
        "holdfast probe", "holdfast plan", "kubectl apply", "kubectl -n", "holdfast package", "python -m",
        "holdfast-train evaluate", "holdfast report",
    ]  # fmt: skip
    assert re.search(r"^Ordered +\S+ .*%$", said, re.MULTILINE), "the table of the plan"
    assert re.search(r"^onnx +onnx/model.onnx .* accepted *$", said, re.MULTILINE), "the table of the package"
    assert re.search(r"^ships .* onnx", said, re.MULTILINE), "the table of the evaluation"
    assert "✗" not in said
    pages = {"model/report.html": "onnx-int8", "evaluation/evaluation.html": "onnx-int8", "training.html": "spot-2"}
    for name, word in pages.items():
        assert str(folder / "results" / name) in said
        page = (folder / "results" / name).read_text(encoding="utf-8")
        assert word in page
        assert page.rstrip().endswith("</html>")
    # onnxruntime writes .ses as soon as it is imported.
    assert {path.name for path in folder.iterdir()} - {".ses"} == {"results"}
    assert not processes_below(folder)
