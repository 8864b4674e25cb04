"""The command: its port, what it prints, and which browser it opens."""

import socket
import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast_cli.errors import CliError
from holdfast_cli.main import app
from holdfast_cli.ui import command

ADDRESS = "http://127.0.0.1:1/?token=secret"


def test_a_free_port_of_the_loopback_interface_is_taken() -> None:
    with command.listening(0) as sock:
        host, port = sock.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(CliError, match=f"--port {port} cannot be used"), command.listening(port):
            pass


def test_the_secret_is_no_argument_of_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if other users of the machine can read the secret in the list of processes, or in a file that stays."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda uri: opened.append(uri) is None)
    with command.announced(ADDRESS, "demo", opened=True):
        page = Path(opened[0].removeprefix("file://"))
        assert "secret" not in opened[0]
        assert ADDRESS in page.read_text()
        assert page.parent.stat().st_mode & 0o077 == 0
    assert not page.exists()


def test_nothing_is_opened_if_nobody_wants_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "open", pytest.fail)
    with command.announced(ADDRESS, "demo", opened=False):
        assert ADDRESS in capsys.readouterr().out
    assert not command.can_open()  # the output of tests is not a terminal


def test_namespace_and_all_namespaces_exclude_each_other() -> None:
    assert CliRunner().invoke(app, ["ui", "-n", "a", "-A"]).exit_code == 2


def test_a_cluster_that_does_not_answer_is_an_error_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    config = tmp_path / "config"
    config.write_text(
        f"""{{"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{{"name": "u", "user": {{}}}}],
        "clusters": [{{"name": "c", "cluster": {{"server": "http://127.0.0.1:{port}"}}}}],
        "contexts": [{{"name": "c", "context": {{"cluster": "c", "user": "u"}}}}]}}"""
    )
    result = CliRunner().invoke(app, ["ui", "--no-open", "--kubeconfig", str(config)])
    assert result.exit_code == 3
    assert "no answer from the cluster" in result.output
