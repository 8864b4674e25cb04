"""The operator's own program: its options, and that it runs without the packages of any extra."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from holdfast.runtime import command
from holdfast.runtime.settings import Settings

EXTRAS = ("awscrt", "boto3", "botocore", "filelock", "holdfast_train", "psutil", "rich", "typer")
UNREACHABLE = {
    "current-context": "none",
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:9"}}],
    "users": [{"name": "none", "user": {"token": "none"}}],
}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Settings of every operator that would have run."""
    found: list[Settings] = []

    def run(settings: Settings) -> int:
        found.append(settings)
        return 0

    monkeypatch.setattr(command, "run", run)
    return found


@pytest.mark.parametrize("given", ["0", "-3", "nan"])
def test_a_release_needs_some_time(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["release", "--deadline", given]) == 2
    assert "--deadline: at least 1 (second) is allowed; got" in capsys.readouterr().err


def test_the_time_of_a_release_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the chart's release.deadline does not reach the program."""
    given: list[float] = []
    monkeypatch.setattr(command, "release", lambda deadline, **_: given.append(deadline) or "released 0 pods")
    assert command.main(["release"]) == 0
    monkeypatch.setenv(command.RELEASE_DEADLINE, "900")
    assert command.main(["release"]) == 0
    assert given == [240.0, 900.0]


# Breaks if the operator's image, which has no extra, lacks a package that the operator imports.
def test_runs_without_the_packages_of_the_extras(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(UNREACHABLE))
    block = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r}))"
    line = f"{block}; from holdfast.runtime.command import main; sys.exit(main(sys.argv[1:]))"
    binds = [part for name in ("health", "progress", "metrics") for part in (f"--{name}-bind", "127.0.0.1:0")]
    flags = ("--kubeconfig", str(kubeconfig), *binds)
    process = subprocess.Popen([sys.executable, "-c", line, "run", *flags], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        seen = ""
        while "cannot read or create Secret" not in seen:
            text = process.stderr.readline()
            assert text, seen
            seen += text
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_flag_wins_over_its_variable(started: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_WORKERS", "3")
    monkeypatch.setenv("HOLDFAST_QPS", "7")
    monkeypatch.setenv("HOLDFAST_SEED", "")
    monkeypatch.setenv("HOLDFAST_PATIENCE", "start_timeout=3 backoff_base=0.5")
    assert command.main(["run", "--workers", "5"]) == 0
    (found,) = started
    assert (found.workers, found.qps, found.seed) == (5, 7.0, None)
    assert found.patience == {"start_timeout": 3.0, "backoff_base": 0.5}


def test_a_wrong_setting_ends_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["run", "--workers", "0"]) == 2
    assert capsys.readouterr().err == 'error: --workers: "0": must be at least 1\n'
