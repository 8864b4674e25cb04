"""All commands have one list of exit codes, the page is that list, and the same trouble has the same code."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer
from tests.unit.docs.pages import DOCS
from typer.testing import CliRunner

from holdfast.api.errors import ExitCode
from holdfast.runtime import command as operator_command
from holdfast.runtime.errors import ApiError
from holdfast_cli.main import app
from holdfast_cli.terminal.interruptible import interruptible
from holdfast_train import errors
from holdfast_train.exchange import command as train_command
from holdfast_train.pod.launcher import program
from holdfast_train.run.leaving import EXIT_SECOND_SIGTERM
from holdfast_train.storage.folder import FolderStorage

ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)


def holdfast(*arguments: str) -> int:
    return CliRunner().invoke(app, arguments).exit_code


def test_the_page_has_every_code() -> None:
    _, commands, pods, launcher = (DOCS / "reference/exit-codes.md").read_text().split("\n## ")
    assert list(map(int, ROW.findall(commands))) == list(ExitCode)
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    of_errors = {kind.exit_code for kind in kinds if issubclass(kind, errors.HoldfastTrainError)}
    assert set(map(int, ROW.findall(pods))) == {*of_errors, EXIT_SECOND_SIGTERM}
    assert set(map(int, ROW.findall(launcher))) == {program.MISCONFIGURED, program.NOT_EXECUTABLE, program.NOT_FOUND}


def test_both_distributions_have_the_same_codes() -> None:
    assert {code.name: int(code) for code in errors.CommandCode} == {code.name: int(code) for code in ExitCode}


TROUBLE = [
    (errors.StorageUnreachableError, ExitCode.NO_ANSWER),
    (errors.StorageDeniedError, ExitCode.FORBIDDEN),
    (errors.StorageNotFoundError, ExitCode.NOT_FOUND),
    (errors.StorageInvalidError, ExitCode.USAGE),
    (errors.StorageUntrustedError, ExitCode.FAILED),
    (errors.StorageProxyFailedError, ExitCode.NO_ANSWER),
    (errors.StorageFullError, ExitCode.FAILED),
]


# Breaks if one of the two programs has a code of its own for an error of the storage.
@pytest.mark.parametrize(("error", "code"), TROUBLE)
def test_both_programs_give_an_error_of_the_storage_the_same_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[errors.StorageError], code: ExitCode
) -> None:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise error("trouble")

    for name in ("keys", "entries", "get", "size"):
        monkeypatch.setattr(FolderStorage, name, fail)
    monkeypatch.setattr("holdfast_cli.storage.address.PATIENCE", 0.0)
    monkeypatch.setattr("holdfast_train.exchange.command.PATIENCE_SECONDS", 0.0)
    assert holdfast("checkpoints", "list", str(tmp_path)) == code
    assert train_command.main(["export", str(tmp_path), str(tmp_path / "out")]) == code


@pytest.mark.parametrize(("place", "code"), [("ftp://x/y", ExitCode.USAGE), ("none/here", ExitCode.NOT_FOUND)])
def test_both_programs_give_a_wrong_address_the_same_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, code: ExitCode
) -> None:
    monkeypatch.chdir(tmp_path)
    assert holdfast("checkpoints", "list", place) == code
    assert train_command.main(["export", place, str(tmp_path / "out")]) == code


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--workers", "0"], ExitCode.USAGE), (["--kubeconfig", "/nowhere"], ExitCode.NO_ANSWER)],
)
def test_the_operator_has_the_codes_of_the_list(arguments: list[str], code: ExitCode) -> None:
    assert operator_command.main(["run", *arguments]) == code


@pytest.mark.parametrize("arguments", [["watch"], ["describe", "job"], ["move", "job"]])
def test_a_missing_kubeconfig_has_the_code_of_a_cluster_that_does_not_answer(arguments: list[str]) -> None:
    assert holdfast(*arguments, "--kubeconfig", "/nowhere") == ExitCode.NO_ANSWER


@pytest.mark.parametrize(
    ("status", "code"),
    [(0, ExitCode.NO_ANSWER), (401, ExitCode.FORBIDDEN), (403, ExitCode.FORBIDDEN), (404, ExitCode.NOT_FOUND)]
    + [(status, ExitCode.FAILED) for status in (400, 409, 422, 500, 503)],
)
def test_answers_of_the_api_server(status: int, code: ExitCode) -> None:
    assert ApiError(status, "Reason", "message").exit_code == code


def interrupt(*_: Any, **__: Any) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "run",
    [
        lambda: holdfast("checkpoints", "list", "./x"),
        lambda: train_command.main(["export", "./x", "./y"]),
    ],
)
def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch, run: Callable[[], int]) -> None:
    monkeypatch.setattr(FolderStorage, "entries", interrupt)
    monkeypatch.setattr(FolderStorage, "keys", interrupt)
    assert run() == ExitCode.INTERRUPTED


def test_an_interrupted_demo_is_130() -> None:
    with pytest.raises(typer.Exit) as ended, interruptible():
        interrupt()
    assert ended.value.exit_code == ExitCode.INTERRUPTED
