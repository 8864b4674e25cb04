"""Read manifest files as strictly as the API server does, and find them as kubectl does."""

import sys
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from holdfast_cli.errors import CliError, ExitCode, unreadable

STANDARD_INPUT: Final = Path("-")
ENDINGS: Final = (".json", ".yaml", ".yml")  # of the files of a folder that are read, as for kubectl

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE]...",
        help="YAML or JSON files of manifests, or folders of such files; - for standard input.",
        show_default=False,
    ),
]
AlsoFiles = Annotated[
    list[Path] | None,
    typer.Option("--filename", "-f", metavar="FILE", help="The same as FILE, as kubectl has it. Repeatable."),
]


class ManifestError(CliError):
    """A file was read, and is not one of manifests."""


class EmptyError(ManifestError):
    """A file contains no object. Among others it is harmless."""


def manifest_files(files: Iterable[Path] | None, also: Iterable[Path] | None) -> list[Path]:
    """All files that were named, and those in a folder that was named. Raises BadParameter, CliError."""
    named = [*(files or ()), *(also or ())]
    if not named:
        raise typer.BadParameter("name a file, a folder, or - for standard input", param_hint="FILE")
    return [file for path in named for file in (_in_folder(path) if path.is_dir() else [path])]


def _in_folder(folder: Path) -> list[Path]:
    found = sorted(file for file in folder.iterdir() if file.suffix in ENDINGS and file.is_file())
    if not found:
        raise CliError(
            f"{folder} is a folder without a file that ends in {', '.join(ENDINGS)}", code=ExitCode.NOT_FOUND
        )
    return found


class _Strict(yaml.SafeLoader):
    """Refuses a field that is written twice, and leaves times as text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = key_node.value
            if key in seen:
                raise yaml.MarkedYAMLError(
                    "while reading an object", node.start_mark, f"field {key!r} is written twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _text(_: _Strict, node: yaml.Node) -> str:
    return str(node.value)


_Strict.add_constructor("tag:yaml.org,2002:timestamp", _text)


def _where(error: yaml.YAMLError) -> str:
    """What is wrong and where; PyYAML's own text names a string in memory in place of the file."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error)
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"


def read(path: Path) -> list[dict[str, Any]]:
    """Every object of a YAML or JSON file, `-` for standard input, also those inside a List.

    Raises CliError if the file cannot be read, ManifestError if its content is wrong.
    """
    try:
        text = sys.stdin.read() if path == STANDARD_INPUT else path.read_text(encoding="utf-8")
        documents = [document for document in yaml.load_all(text, _Strict) if document is not None]
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path} is not UTF-8 text: {error}") from error
    except RecursionError as error:
        raise ManifestError(f"{path} is nested too deeply for a manifest") from error
    except yaml.YAMLError as error:
        raise ManifestError(f"{path} is not YAML: {_where(error)}") from error
    objects: list[dict[str, Any]] = []
    for document in documents:
        listed = isinstance(document, dict) and document.get("kind") == "List"
        objects += (document.get("items") or []) if listed else [document]
    for number, item in enumerate(objects, 1):
        if not isinstance(item, dict) or not isinstance(item.get("kind"), str):
            raise ManifestError(f"{path}: document {number} is not a Kubernetes object: it needs apiVersion and kind")
    if not objects:
        raise EmptyError(f"{path} contains no object")
    return objects
