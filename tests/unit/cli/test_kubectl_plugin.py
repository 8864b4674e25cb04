"""`kubectl holdfast`: what kubectl runs, what its user reads, and what is completed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.http.scripted_api_server import FakeApi, fake_api, listing
from tests.support.manifests.observed_jobs import raw_job
from typer.testing import CliRunner, Result

from holdfast_cli import kubectl_plugin
from holdfast_cli.__main__ import main
from holdfast_cli.kubectl_plugin import under_its_name
from holdfast_cli.main import app

BIN = Path(sys.executable).parent
JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    with fake_api() as server:
        server.answers = {("GET", JOBS): listing(raw_job())}
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield server


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """The lines that the program for completion prints for these words."""
    for name in ("_HOLDFAST_COMPLETE", "_TYPER_COMPLETE_FISH_ACTION", "_TYPER_COMPLETE_ARGS", "COLUMNS"):
        monkeypatch.setenv(name, "")  # what it sets is taken back

    def complete(*words: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-holdfast", *words])
        kubectl_plugin.complete(main)
        out, err = capsys.readouterr()
        assert err == ""
        return out.splitlines()

    return complete


def typed(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), prog_name=kubectl_plugin.PROGRAM)


# Breaks if help or an error names a program that was not typed.
@pytest.mark.usefixtures("api")
def test_help_and_errors_name_the_program_that_was_typed() -> None:
    helped = typed("checkpoints", "list", "--help").stdout
    assert "Usage: kubectl holdfast checkpoints list" in helped
    assert "\n    kubectl holdfast checkpoints list vit-faces -n vision\n" in helped
    failed = typed("describe", "nope")
    assert failed.exit_code == 4
    assert "hint:  kubectl holdfast watch -A lists all jobs" in failed.output
    assert "'kubectl holdfast why -h'" in typed("why").output


# Breaks if kubectl gets a line that is neither a candidate nor the directive, which comes last.
@pytest.mark.usefixtures("api")
@pytest.mark.parametrize(
    ("words", "candidates", "directive"),
    [
        (["w"], ["watch", "why"], ":4"),
        (["describe", ""], ["job"], ":4"),
        (["describe", "job", "-o", ""], ["json", "yaml"], ":4"),
        (["checkpoints", "un"], ["unpin"], ":4"),
        (["describe", "job", "--hist"], ["--history"], ":4"),  # its description is longer than a line
        (["check", ""], [], ":0"),  # the shell completes files
        (["no such", "it's"], [], ":0"),
    ],
)
def test_completion_is_what_kubectl_reads(
    completed: Callable[..., list[str]], words: list[str], candidates: list[str], directive: str
) -> None:
    *lines, last = completed(*words)
    assert last == directive
    assert not candidates or [line.split("\t")[0] for line in lines] == candidates


def test_completion_without_a_cluster_is_quiet(
    completed: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert completed("describe", "") == [":0"]


# Breaks if kubectl does not find the two programs by their names.
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine")
def test_kubectl_finds_the_plugin_and_its_completion(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    for words, wanted in (
        (["holdfast", "watch", "-o", "name"], "trainingjob.holdfast.dev/job"),
        (["__complete", "holdfast", "describe", "j"], "job"),
    ):
        done = subprocess.run(["kubectl", *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout.splitlines()[0] == wanted, done.stderr


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("holdfast watch -A lists", "kubectl holdfast watch -A lists"),
        ("pip install 'holdfast[local]'", "pip install 'holdfast[local]'"),
        ("helm install holdfast charts/holdfast --namespace", "helm install holdfast charts/holdfast --namespace"),
        ("s3://runs/holdfast and", "s3://runs/holdfast and"),
    ],
)
def test_only_command_lines_are_renamed(text: str, wanted: str) -> None:
    assert under_its_name(text) == wanted
