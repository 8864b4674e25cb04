"""The relay: when there is one, and what the program is told of it."""

import json
import stat
import urllib.request
from pathlib import Path

import pytest
from tests.support.http.fake_operator import FakeOperator
from tests.support.trainer.pod_settings import pod_variables
from tests.support.waiting import wait_for

from holdfast_protocol.report import read
from holdfast_train.pod.launcher.progress.output_progress import OutputProgress
from holdfast_train.pod.launcher.progress.relay import (
    SERVER_TOKEN,
    SERVER_URL,
    progress,
    progress_relay,
    without_proxy,
)

POD = pod_variables(
    {"HOLDFAST_NAMESPACE": "ns", "HOLDFAST_JOB": "a", "HOLDFAST_ATTEMPT": "2"}, operator_url="http://127.0.0.1:9"
)


# Breaks if another user of the pod can read the token, if it stays, or if the program is not told of the relay.
def test_the_program_gets_an_address_and_a_secret(tmp_path: Path) -> None:
    (tmp_path / "progress-token").symlink_to(tmp_path / "elsewhere")
    with progress_relay({**POD, "MORE": "1", "http_proxy": "http://proxy"}, str(tmp_path)) as variables:
        path = Path(variables[SERVER_TOKEN])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not path.is_symlink()
        assert (variables["MORE"], variables["no_proxy"]) == ("1", "127.0.0.1")
        assert variables[SERVER_URL].endswith("/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/a/status")
        token = path.read_text()
        assert len(token) == 64
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(variables[SERVER_URL], data=b"{}", headers=headers, method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert (answer.status, answer.read()) == (200, b"{}")
    assert not path.exists()


@pytest.mark.parametrize(
    "more",
    [
        {SERVER_URL: "https://other"},
        {SERVER_TOKEN: "/token"},
        {"KUBEFLOW_TRAINER_SERVER_CA_CERT": "/ca"},
        {"DISABLE_KUBEFLOW_INTEGRATION": "true"},
        {"HOLDFAST_SETTINGS": "{}"},
    ],
)
def test_no_relay(tmp_path: Path, more: dict[str, str]) -> None:
    with progress_relay({**POD, **more}, str(tmp_path)) as variables:
        assert variables == {**POD, **more}
        assert list(tmp_path.iterdir()) == []


# Breaks if a program cannot start because there is no place for a file.
def test_no_place_for_the_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_relay(POD, None) as variables:
        assert variables == POD
    with progress_relay(POD, str(tmp_path / "missing")) as variables:
        assert variables == POD
    assert "is not relayed" in capsys.readouterr().err


# Breaks if the program sends the secret to a proxy, and waits for it in each step.
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"no_proxy": "a"}, {}),
        ({"http_proxy": "http://p"}, {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}),
        ({"HTTP_PROXY": "http://p", "NO_PROXY": "a, b"}, {"NO_PROXY": "a,b,127.0.0.1"}),
        ({"http_proxy": "http://p", "no_proxy": "*"}, {"no_proxy": "*"}),
        ({"http_proxy": "http://p", "no_proxy": "127.0.0.1"}, {"no_proxy": "127.0.0.1"}),
    ],
)
def test_requests_to_the_relay_pass_no_proxy(given: dict[str, str], expected: dict[str, str]) -> None:
    assert without_proxy(given) == expected


# Breaks if nobody learns the address that the launcher has, because the program reports nothing of its own; or if a
# report of the program's steps takes it away.
def test_the_run_that_the_launcher_has_made_is_reported_at_once(tmp_path: Path) -> None:
    operator = FakeOperator()
    url = "https://mlflow.example/#/experiments/0/runs/a1"
    pod = {**POD, "HOLDFAST_POD_UID": "u", "HOLDFAST_MLFLOW_RUN_URL": url}
    (tmp_path / "token").write_text("pod")
    place = f"http://127.0.0.1:{operator.server.server_port}"
    try:
        given = pod_variables(pod, operator_url=place, token_file=str(tmp_path / "token"))
        with progress(given, str(tmp_path)) as (variables, _):
            wait_for(lambda: operator.got, 10, "the report")
            status = {"trainerStatus": {"metrics": [{"name": "step", "value": "7"}]}}
            headers = {"Authorization": f"Bearer {Path(variables[SERVER_TOKEN]).read_text()}"}
            request = urllib.request.Request(variables[SERVER_URL], json.dumps(status).encode(), headers, method="POST")
            with urllib.request.urlopen(request, timeout=30):
                wait_for(lambda: len(operator.got) == 2, 10, "the step")
        told = [read(body) for *_, body in operator.got]
        assert [(one.step, one.state, one.tracking) for one in told] == [
            (None, "starting", {"mlflow": url}),
            (7, "training", {"mlflow": url}),
        ]
    finally:
        operator.server.shutdown()
        operator.server.server_close()


# Breaks if what a program prints wins over what it reports.
def test_a_report_ends_the_reading_of_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gave_way: list[bool] = []
    monkeypatch.setattr(OutputProgress, "give_way", lambda _: gave_way.append(True))
    with progress(pod_variables(POD, patterns=("tqdm",)), str(tmp_path)) as (variables, listeners):
        assert None not in listeners
        headers = {"Authorization": f"Bearer {Path(variables[SERVER_TOKEN]).read_text()}"}
        request = urllib.request.Request(variables[SERVER_URL], data=b"{}", headers=headers, method="POST")
        assert gave_way == []
        with urllib.request.urlopen(request, timeout=30):
            assert len(gave_way) == 1
    with progress(POD, str(tmp_path)) as (_, listeners):
        assert listeners == (None, None)
