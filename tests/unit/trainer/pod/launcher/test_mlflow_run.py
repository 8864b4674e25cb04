"""The run of an MLflow server that all attempts share, with a server that speaks the four requests."""

import base64
from collections.abc import Iterator

import pytest
from tests.support.http.mlflow_server import MlflowServer, mlflow_server

from holdfast_train.pod.launcher.mlflow_run import TAG, mlflow_variables
from holdfast_train.pod.launcher.timings import Timings

UID = "6f1c-u"


@pytest.fixture
def server() -> Iterator[MlflowServer]:
    with mlflow_server() as found:
        yield found


def run_of(server: MlflowServer, seconds: float = 10.0, **more: str) -> str | None:
    """The id that an attempt gets, from a server that has so much time for its answers."""
    given = {"HOLDFAST_JOB": "vit", "HOLDFAST_JOB_UID": UID, "MLFLOW_TRACKING_URI": server.uri, **more}
    return mlflow_variables(given, Timings(mlflow=seconds, mlflow_pause=0.0)).get("MLFLOW_RUN_ID")


def test_all_attempts_get_the_run_that_the_first_one_has_made(server: MlflowServer) -> None:
    """Breaks if each attempt has a curve of its own, or if two jobs share one."""
    assert [run_of(server), run_of(server), run_of(server, HOLDFAST_JOB_UID="other")] == ["run0", "run0", "run1"]
    (made, _) = server.runs
    assert (made["experiment_id"], made["run_name"]) == ("0", "vit")
    assert made["start_time"] > 1e12, "milliseconds"


@pytest.mark.parametrize("secret", ["", "me:secret@"])
def test_the_address_of_the_run_is_known_without_the_password(server: MlflowServer, secret: str) -> None:
    """Breaks if people who may read the job see the password in MLFLOW_TRACKING_URI."""
    given = {"HOLDFAST_JOB": "vit", "HOLDFAST_JOB_UID": UID, "MLFLOW_EXPERIMENT_ID": "7"}
    uri = server.uri.replace("//", f"//{secret}")
    found = mlflow_variables({**given, "MLFLOW_TRACKING_URI": f"{uri}/"}, Timings(mlflow=10.0, mlflow_pause=0.0))
    assert found == {
        "MLFLOW_RUN_ID": "run0",
        "HOLDFAST_MLFLOW_RUN_URL": f"{server.uri}/#/experiments/7/runs/run0",
    }


def test_the_run_is_in_the_experiment_that_the_program_uses(server: MlflowServer) -> None:
    """Breaks if a program that sets its experiment cannot continue the run: MLflow refuses one of another."""
    assert run_of(server, MLFLOW_EXPERIMENT_NAME="faces") == run_of(server, MLFLOW_EXPERIMENT_NAME="faces") == "run0"
    assert run_of(server, MLFLOW_EXPERIMENT_ID="1") == "run0"
    assert run_of(server) == "run1"
    assert server.experiments == {"Default": "0", "faces": "1"}


@pytest.mark.parametrize("own", [{"MLFLOW_RUN_ID": "mine"}, {"HOLDFAST_RANK": "1"}])
def test_nothing_is_asked_if_the_user_has_a_run_or_another_node_logs(server: MlflowServer, own: dict[str, str]) -> None:
    assert run_of(server, **own) is None
    assert server.heard == []


def test_a_server_that_fails_once_is_asked_again(server: MlflowServer) -> None:
    server.fails = [503]
    assert run_of(server) == "run0"


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_server_that_refuses_does_not_keep_the_program_from_training(
    server: MlflowServer, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fails = [status] * 4
    assert run_of(server) is None
    assert f"HTTP status {status}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "says", [b"[]", b"<html>", b'{"runs": [{}]}', b'{"runs": [{"info": {"run_id": "a\\nB=c"}}]}', b'{"runs": 5}']
)
def test_an_answer_that_makes_no_sense_is_no_run(server: MlflowServer, says: bytes) -> None:
    """Breaks if a server can write more than an id into the environment of a program."""
    server.says = says
    assert run_of(server) is None


@pytest.mark.parametrize("uri", ["", "file:///mlruns", "databricks", "http://127.0.0.1:1"])
def test_a_server_that_cannot_be_asked_is_said(
    server: MlflowServer, uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_of(server, MLFLOW_TRACKING_URI=uri) is None
    assert "MLflow: no run for this job" in capsys.readouterr().err


def test_the_credentials_of_mlflow_are_used_and_never_said(
    server: MlflowServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Breaks if a password is in the log, or if a server with users refuses the launcher."""
    user = {"MLFLOW_TRACKING_USERNAME": "ada", "MLFLOW_TRACKING_PASSWORD": "s3cret"}
    run_of(server, **user)
    run_of(server, MLFLOW_TRACKING_TOKEN="t0ken", **user)
    run_of(server, MLFLOW_TRACKING_URI=server.uri.replace("//", "//ada:s3cret@"))
    basic = "Basic " + base64.b64encode(b"ada:s3cret").decode()
    assert [said for path, said in server.heard if path.endswith("search")] == [basic, basic, "Bearer t0ken", basic]
    server.fails = [500] * 2
    run_of(server, MLFLOW_TRACKING_URI=server.uri.replace("//", "//ada:s3cret@"))
    assert "s3cret" not in "".join(capsys.readouterr())


def test_two_attempts_that_make_a_run_at_once_use_the_same_one(server: MlflowServer) -> None:
    """Breaks if the attempts of one job log into two runs because they overlap."""
    tags = [{"key": TAG, "value": UID}]
    server.between = lambda: server.runs.append({"id": "of-the-other", "experiment_id": "0", "tags": tags})
    assert run_of(server) == "of-the-other"


def test_an_answer_that_gets_lost_makes_no_second_curve(server: MlflowServer) -> None:
    """Breaks if this attempt logs into the second run, and all later ones into the first."""

    def lose() -> None:
        if not server.runs:
            server.between = lambda: None
            server.answer("/api/2.0/mlflow/runs/create", {"tags": [{"key": TAG, "value": UID}], "experiment_id": "0"})
            raise ConnectionResetError

    server.between = lose
    assert [run_of(server), run_of(server)] == ["run0", "run0"]
    assert len(server.runs) == 2


def test_credentials_do_not_follow_a_redirect(server: MlflowServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Breaks if the token goes to the host that a redirect names."""
    with mlflow_server() as other:
        server.redirects_to = other.uri
        for name in ("", "faces"):  # a POST, and a GET
            assert run_of(server, MLFLOW_TRACKING_TOKEN="t0ken", MLFLOW_EXPERIMENT_NAME=name) is None
        assert other.heard == []
    assert "HTTP status 302" in capsys.readouterr().err


def test_a_server_that_is_slow_costs_a_bounded_time(server: MlflowServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Breaks if a server that answers byte by byte keeps the program from training."""
    server.trickles = True
    assert run_of(server, 0.2) is None
    assert "no answer within 0.2 s" in capsys.readouterr().err
