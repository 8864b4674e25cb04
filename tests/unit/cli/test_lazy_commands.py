"""Commands are imported when they are typed, and what stands for them until then says the same."""

import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from holdfast_cli.main import Group, app

HEAVY = ("aiohttp", "boto3", "cryptography", "kopf", "kubernetes")


def imported_by(*command: str) -> set[str]:
    """The first parts of the names of all modules that the command imports."""
    line = f"from holdfast_cli.main import app; app({list(command)!r}, standalone_mode=False)"
    told = f"{line}; import sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=120, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()}


# Breaks if a command, or a module that many of them share, is imported before it is needed.
@pytest.mark.parametrize(
    "command",
    [
        ("--help",),
        ("simulate", "--synthetic", "--policy", "greedy", "--work", "6h", "--load", "0.8", "--windows", "1"),
    ],
)
def test_what_needs_no_cluster_imports_nothing_for_one(command: tuple[str, ...]) -> None:
    found = imported_by(*command)
    assert "holdfast" in found
    assert not found & set(HEAVY)


# Breaks if the help of a command is changed, and not what lists say of it.
@pytest.mark.parametrize("name", Group.places)
def test_lists_say_what_the_command_says(name: str) -> None:
    group = typer.main.get_group(app)
    context = group.make_context("holdfast", [], resilient_parsing=True)
    _, command, rest = group.resolve_command(context, [name, "x"])
    assert command is not None
    assert (command.name, rest) == (name, ["x"])
    for limit in (20, 45, 80, 200):
        assert group.commands[name].get_short_help_str(limit) == command.get_short_help_str(limit)


@pytest.mark.parametrize(
    ("typed", "wanted"), [("simulat", "Did you mean 'simulate'?"), ("xyz", "No such command 'xyz'")]
)
def test_a_command_that_is_not_there(typed: str, wanted: str) -> None:
    result = CliRunner().invoke(app, [typed])
    assert result.exit_code == 2
    assert wanted in result.output


# Breaks if an option of the program is taken for one of `holdfast run`.
def test_a_program_without_dashes_before_it() -> None:
    group = typer.main.get_group(app)
    _, command, rest = group.resolve_command(
        group.make_context("holdfast", [], resilient_parsing=True),
        ["run", "--gpus", "2", "python", "train.py", "--steps", "9", "--gpus", "1"],
    )
    assert command is not None
    found = command.make_context("run", rest).params
    assert (found["gpus"], found["steps"]) == (2, None)
    assert found["command"] == ["python", "train.py", "--steps", "9", "--gpus", "1"]
