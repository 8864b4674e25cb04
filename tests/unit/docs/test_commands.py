"""Every command line and manifest of the pages is one that the commands accept."""

import importlib.util
import os
import re
import shlex
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from tests.unit.docs.pages import GENERATED, PAGES, ROOT, Block, blocks, prose, relative
from typer.testing import CliRunner

from holdfast.runtime import command as holdfast_operator
from holdfast_cli.check.command import app as check
from holdfast_cli.main import app
from holdfast_train.exchange import command as holdfast_train

SHELL = [block for page in PAGES if page not in GENERATED for block in blocks(page, "sh")]
MANIFESTS = [block for page in PAGES if page not in GENERATED for block in blocks(page, "yaml")]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
_INLINE = re.compile(r"`(holdfast(?:-train)? [^`]+)`")


def commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a shell text, without redirections."""
    text = re.sub(r'eval "\$\(([^)]*)\)"', r"\1", text.replace("\\\n", " "))
    for line in text.splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        words.whitespace_split = True
        command: list[str] = []
        redirected = False
        for word in [*words, ";"]:
            if set(word) <= set("|&;"):
                if command:
                    yield command
                command, redirected = [], False
            elif set(word) <= set("<>&"):
                redirected = True
            elif not redirected:
                command.append(word)


@pytest.fixture
def parse_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands parse their arguments, and do nothing."""
    monkeypatch.setattr(typer.main.get_command(app).context_class, "invoke", lambda *_, **__: None)


# Breaks if a command, an option or a make target is renamed and a page still has the old name.
@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.name)
def test_a_command_line_parses(block: Block, parse_only: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setitem(os.environ, "KUBECONFIG", os.devnull)
    for program, *arguments in commands(block.text.replace("kubectl holdfast ", "holdfast ")):
        match Path(program).name, arguments:
            case "holdfast", _:
                result = CliRunner().invoke(app, arguments)
                assert result.exit_code == 0, f"{block.name}: holdfast {' '.join(arguments)}: {result.output}"
            case "holdfast-operator", _:
                holdfast_operator.make_parser().parse_args(arguments)
            case "holdfast-train", _:
                holdfast_train.make_parser().parse_args(arguments)
            case "make", [target, *_]:
                assert target in TARGETS, f"{block.name}: make has no target {target}"
            case "python", ["-m", module, *_]:
                assert importlib.util.find_spec(module), f"{block.name}: no module {module}"


def known(words: list[str]) -> str | None:
    """What is wrong with the beginning of a `holdfast` command line, None if nothing is."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("holdfast", [], resilient_parsing=True)
    for word in words:
        if word == "--":  # what follows is a command of the user
            return None
        if word.startswith("--"):
            if not any(word.split("=")[0] in (*p.opts, *p.secondary_opts) for p in command.params):
                return f"{context.command_path} has no option {word}"
        elif hasattr(command, "commands") and word.islower():
            if word not in command.list_commands(context):
                return f"{context.command_path} has no command {word}"
            _, command, _ = command.resolve_command(context, [word])
            context = command.make_context(word, [], parent=context, resilient_parsing=True)
    return None


# Breaks if a sentence names a command or an option that does not exist.
@pytest.mark.parametrize("page", [page for page in PAGES if page not in GENERATED], ids=relative)
def test_a_sentence_names_commands_that_exist(page: Path) -> None:
    for line in _INLINE.findall(prose(page)):
        program, *words = re.sub(r"[\[\]…]|\.\.\.|\|.*", " ", line).split()
        if program == "holdfast":
            assert (wrong := known(words)) is None, f"{relative(page)}: `{line}`: {wrong}"


def merged(base: Any, change: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(change, dict)):
        return deepcopy(change)
    return {key: merged(base.get(key), change[key]) if key in change else base[key] for key in (*base, *change)}


def whole(part: dict[str, Any]) -> dict[str, Any]:
    """The smallest job with what a page shows of another one."""
    smallest = yaml.safe_load((ROOT / "examples" / "smallest.yaml").read_text(encoding="utf-8"))
    if "tiers" in part.get("spec", {}).get("capacity", {}):
        del smallest["spec"]["capacity"]["profile"]
    found: dict[str, Any] = merged(smallest, part)
    return found


# Breaks if a page shows a manifest that the API server would refuse.
@pytest.mark.parametrize("block", MANIFESTS, ids=lambda block: block.name)
def test_a_manifest_is_accepted(block: Block, tmp_path: Path) -> None:
    shown = [part if "kind" in part else whole(part) for part in yaml.safe_load_all(block.text)]
    file = tmp_path / "shown.yaml"
    file.write_text(yaml.safe_dump_all(shown), encoding="utf-8")
    result = CliRunner().invoke(check, [str(file), "--offline"])
    assert result.exit_code == 0, f"{block.name}: {result.output}"


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_an_example_file_is_accepted(path: Path) -> None:
    result = CliRunner().invoke(check, [str(path), "--offline"])
    assert result.exit_code == 0, result.output


def test_the_readme_shows_the_smallest_example() -> None:
    (shown,) = blocks(ROOT / "README.md", "yaml")
    assert yaml.safe_load(shown.text) == yaml.safe_load((ROOT / "examples" / "smallest.yaml").read_text())
