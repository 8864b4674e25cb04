"""What `holdfast` says of options with wrong values, of wrong names, and where it cannot write its answer."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.support.http.kubeconfig import write_kubeconfig
from typer.testing import CliRunner

from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster.connect import explain
from holdfast_cli.main import app


# Breaks if an error repeats the words of the library that reads the value ("Input should be a valid integer, ...").
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("simulate --synthetic --windows x", """'--windows': "x": must be a whole number"""),
        ("simulate --synthetic --windows 0", """'--windows': "0": must be at least 1"""),
        ("simulate --synthetic --zones x", "'--zones': 'x' is not one of 'apart', 'together'."),
        ("simulate --synthetic --load x", "--load: must be numbers with commas, such as 0.6,0.85; got 'x'"),
        ("watch --every x", """'--every': "x": must be a number"""),
        ("local build minikube", "'minikube' is not one of 'kubernetes', 'versitygw', 'prometheus'."),
    ],
)
def test_a_wrong_value_says_what_was_found_and_what_is_allowed(line: str, words: str) -> None:
    result = CliRunner().invoke(app, line.split())
    assert (result.exit_code, words in result.output) == (2, True), result.output
    assert "Input should" not in result.output


def test_the_version_is_shown() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"holdfast {version('holdfast')}\n")


# Breaks if a name becomes a part of another address: an empty one is the list of all jobs.
@pytest.mark.parametrize("name", ["", "..", "../secrets/x", "tj/x", "Upper", "a?b"])
def test_what_cannot_be_a_name_of_a_job_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    file = write_kubeconfig(tmp_path / "config", 1, "demo")  # nothing listens: a request would be "no answer"
    result = CliRunner().invoke(app, ["describe", name, "--kubeconfig", str(file)])
    assert (result.exit_code, f'"{name}" is not the name of a job' in result.output) == (2, True), result.output


def test_the_hint_is_about_the_object_that_is_missing() -> None:
    missing = ApiError(404, "NotFound", 'capacityprofiles.holdfast.dev "x" not found')
    assert explain(missing, "s").hint == "kubectl get capacityprofiles.holdfast.dev lists them"


# Breaks if a full disk, a closed stream or a terminal without the characters ends a command with a traceback.
@pytest.mark.parametrize(
    ("shell", "code", "words"),
    [
        ("{0} --help >/dev/full", 1, "error: the answer cannot be written: No space left on device\n"),
        ("{0} check --offline - <&-", 1, "error: - contains no object\n"),
        ("{0} check --help >&-", 0, ""),
        ("{0} check --offline {1}", 4, "error: ?.yaml cannot be read: No such file or directory\n"),
    ],
)
def test_standard_streams_that_do_not_work(shell: str, code: int, words: str, tmp_path: Path) -> None:
    script = shell.format('"$0" -m holdfast_cli', "'\u2588.yaml'")
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable],
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, cwd=tmp_path,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, words)
