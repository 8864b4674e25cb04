"""Read manifest files as strictly as the API server does."""

import sys
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from holdfast_cli.errors import CliError

STANDARD_INPUT = Path("-")


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
    """Every object of a YAML or JSON file, `-` for standard input, also those inside a List. Raises CliError."""
    try:
        text = sys.stdin.read() if path == STANDARD_INPUT else path.read_text(encoding="utf-8")
        documents = [document for document in yaml.load_all(text, _Strict) if document is not None]
    except OSError as error:
        raise CliError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{path} is not UTF-8 text: {error}") from error
    except RecursionError as error:
        raise CliError(f"{path} is nested too deeply for a manifest") from error
    except yaml.YAMLError as error:
        raise CliError(f"{path} is not YAML: {_where(error)}") from error
    objects: list[dict[str, Any]] = []
    for document in documents:
        listed = isinstance(document, dict) and document.get("kind") == "List"
        objects += (document.get("items") or []) if listed else [document]
    for number, item in enumerate(objects, 1):
        if not isinstance(item, dict) or not item.get("kind"):
            raise CliError(f"{path}: document {number} is not a Kubernetes object: it needs apiVersion and kind")
    if not objects:
        raise CliError(f"{path} contains no object")
    return objects
