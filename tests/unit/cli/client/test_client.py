"""The public names of Holdfast for a program, and what they say before a cluster is asked, or when it refuses."""

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.http.scripted_api_server import failure, fake_api, listing
from tests.support.manifests.observed_jobs import raw_job

import holdfast
from holdfast import Client, HoldfastError
from holdfast.api.errors import ExitCode
from holdfast_cli.client.client import command_of, wanted_of
from holdfast_cli.client.job import rows_of
from holdfast_cli.errors import CliError
from holdfast_cli.run.wanted import Wanted
from holdfast_train.series.history import History, Part
from holdfast_train.series.rows import Row

JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs"
NAMES = {
    "Checkpoint": {"at", "metrics", "name", "size", "step"},
    "Client": {"get", "list", "namespace", "run"},
    "HoldfastError": {"exit_code"},
    "Job": {
        *("cancel", "checkpoint", "checkpoints", "history", "logs", "move", "name", "namespace", "report", "resume"),
        *("spec", "status", "suspend", "wait"),
    },
    "JobFailedError": {"exit_code"},
    "JobGoneError": {"exit_code"},
    "WaitTimeoutError": {"exit_code"},
}


@pytest.fixture(autouse=True)
def outside_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


# Breaks if a name that programs use is dropped or renamed, or one is added without a thought.
def test_the_public_names() -> None:
    assert set(holdfast.__all__) == {*NAMES, "Phase"}
    of_errors = {
        "add_note",
        "args",
        "characters_written",
        "with_traceback",
        "errno",
        "filename",
        "filename2",
        "strerror",
    }
    for name, members in NAMES.items():
        found = {one for one in dir(getattr(holdfast, name)) if not one.startswith("_")}
        assert found - of_errors == members, name
    assert set(dir(holdfast)) >= set(holdfast.__all__)
    with pytest.raises(AttributeError, match="no attribute 'client'"):
        _ = holdfast.client  # type: ignore[attr-defined]


# Breaks if a program that only imports holdfast, such as the operator, pays for the client, or it needs torch.
def test_the_client_is_imported_at_its_first_use() -> None:
    program = """
        import sys, holdfast
        assert not {"holdfast_cli", "pydantic", "aiohttp"} & set(sys.modules)
        from holdfast import Client
        print(sorted({"torch", "kopf", "IPython", "pandas"} & set(sys.modules)))
        sys.modules["holdfast_cli.client.job"] = None
        try:
            holdfast.Job
        except ImportError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line[8:] for line in program.splitlines())],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    said = "holdfast.Job needs the command line: pip install holdfast-cli"
    assert done.stdout.splitlines() == ["[]", said], done.stderr


# Breaks if a program of Python is not started with Python, or a command is changed that names its interpreter.
def test_the_command_of_a_run() -> None:
    assert command_of(("train.py", "--lr", 3e-4, Path("sets/a"))) == ["python3", "train.py", "--lr", "0.0003", "sets/a"]
    assert command_of(("torchrun", "train.py")) == ["torchrun", "train.py"]
    with pytest.raises(HoldfastError, match="name the program and its arguments"):
        command_of(())


# Breaks if one of two clusters that a program names is silently left out.
def test_a_kubeconfig_beside_the_local_cluster(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="kubeconfig and local=True name two clusters") as raised:
        Client(kubeconfig=tmp_path / "config", local=True)
    assert raised.value.exit_code is ExitCode.USAGE


# Breaks if a notebook shows a screen of the client's own lines, or neither the cell's line nor what to do.
def test_an_error_in_a_notebook() -> None:
    with pytest.raises(CliError) as raised:
        exec(compile("\n\ncommand_of(())", "cell", "exec"), {"__name__": "__main__", "command_of": command_of})
    line, *told = raised.value._render_traceback_()
    assert line.startswith("line 3:")
    assert told == ['CliError: name the program and its arguments, such as Client.run("train.py")']
    assert CliError("a", hint="b")._render_traceback_() == ["CliError: a", "hint: b"]


# Breaks if an argument of a run means something different from the same word in holdfast.toml.
def test_the_arguments_of_a_run() -> None:
    found = wanted_of({"gpus": 0, "env": {"A": "b"}, "storage": "s3://runs/team", "name": None})
    storage = {"s3": {"bucket": "runs", "prefix": "team"}}
    assert found == Wanted.model_validate({"gpus": 0, "env": {"A": "b"}, "storage": storage})
    assert found.model_fields_set == {"gpus", "env", "storage"}
    with pytest.raises(CliError, match=r'Client\.run: "gpu" is not known') as raised:
        wanted_of({"gpu": 1})
    assert "gpus" in raised.value.hint
    with pytest.raises(CliError, match=r"Client\.run: gpus: ") as raised:
        wanted_of({"gpus": -1})
    assert raised.value.exit_code is ExitCode.USAGE


# Breaks if a run gets an argument that its docstring, and with it the reference, does not name.
def test_the_docstring_names_all_arguments() -> None:
    named = set(re.findall(r"`(\w+)`", Client.run.__doc__ or ""))
    assert named == {*Wanted.model_fields, "dir", "command", "again", "say"}


# Breaks if a wrong argument of a run is found only after a part of it was done.
def test_what_is_wrong_is_said_before_the_cluster_is_asked(tmp_path: Path) -> None:
    with fake_api() as api:
        client = Client(kubeconfig=api.kubeconfig(tmp_path / "config"))
        with pytest.raises(CliError, match="is not a folder"):
            client.run("train.py", dir=tmp_path / "nowhere")
        with pytest.raises(CliError, match="again: 'maybe'; allowed: continue, new"):
            client.run("train.py", dir=tmp_path, again="maybe")
        with pytest.raises(CliError, match="phases are: "):
            client.list("Training")
        assert api.requests == []


# Breaks if the client raises something that is not a HoldfastError, or its code is not that of the command.
async def test_errors_are_those_of_the_commands(tmp_path: Path) -> None:
    with fake_api() as api:
        client = Client(kubeconfig=str(api.kubeconfig(tmp_path / "config")))
        with pytest.raises(HoldfastError, match="there is no job gone in namespace demo") as raised:
            client.get("gone")
        assert raised.value.exit_code is ExitCode.NOT_FOUND
        api.answers["GET", JOBS] = failure(403, "Forbidden", "you may not")
        with pytest.raises(HoldfastError, match="not allowed: you may not") as raised:
            client.list()
        assert raised.value.exit_code is ExitCode.FORBIDDEN
        with pytest.raises(HoldfastError, match="is not the name of a job"):
            client.get("../pods/x")
    with pytest.raises(HoldfastError, match="no cluster") as raised:
        Client("demo", tmp_path / "nothing").list()
    assert raised.value.exit_code is ExitCode.NO_ANSWER


# Breaks if a list leaves jobs out, or takes jobs of another phase in; or if one unreadable job hides the others.
def test_jobs_of_a_phase(tmp_path: Path) -> None:
    def named(name: str, **changes: object) -> dict[str, object]:
        raw = raw_job()
        return {**raw, "metadata": {**raw["metadata"], "name": name}, **changes}

    with fake_api() as api:
        api.answers["GET", JOBS] = listing(
            named("b", status={"phase": "Running"}),
            named("a", spec={}, status={}),
            named("c", status={"phase": "Failed"}),
        )
        client = Client(kubeconfig=api.kubeconfig(tmp_path / "config"))
        assert [job.name for job in client.list()] == ["a", "b", "c"]
        assert [repr(job) for job in client.list("Running")] == ["Job('b', namespace='demo')"]


# Breaks if lost steps are there twice, or pandas gets rows without a time.
def test_rows_of_a_history() -> None:
    first = Part(1, [Row(step, 10.0 + step, {"loss": 1 / step}) for step in (1, 2, 3)], 2)
    second = Part(2, [Row(3, 20.0, {"loss": 0.3, "step": 9.0})], 3)
    rows = rows_of(History([first, second], []))
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert rows[2] == {"step": 3, "time": datetime.fromtimestamp(20, UTC), "loss": 0.3}
