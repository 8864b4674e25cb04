"""The files for k9s: columns show fields that jobs have, and keys run commands that exist."""

from functools import cache
from typing import Any

import pytest
import yaml
from tests.unit.docs.pages import DOCS, blocks
from tests.unit.docs.test_commands import commands, parse_only
from typer.testing import CliRunner

from holdfast.api import crds
from holdfast_cli.main import app

__all__ = ["parse_only"]

VIEWS, PLUGINS = (yaml.safe_load(block.text) for block in blocks(DOCS / "how-to" / "k9s.md", "yml"))
COLUMNS = VIEWS["views"]["holdfast.dev/v1alpha1/trainingjobs"]["columns"]
OF_K9S = {"NAMESPACE", "NAME", "AGE"}


@cache
def version() -> dict[str, Any]:
    crd, _ = crds.manifests()
    (found,) = crd["spec"]["versions"]
    assert f"{crd['spec']['group']}/{found['name']}/{crd['spec']['names']['plural']}" in VIEWS["views"]
    return dict(found)


# Breaks if a field of the status is renamed: k9s shows an empty column, and says nothing.
@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_shows_a_field_of_the_job(column: str) -> None:
    title, _, path = column.partition("|")[0].partition(":")
    if not path:
        assert title in OF_K9S
        return
    found = version()["schema"]["openAPIV3Schema"]
    for name in path.removeprefix(".").split("."):
        assert name in found.get("properties", {}), f"{column}: a job has no {name} there"
        found = found["properties"][name]
    assert found.get("type") not in ("object", "array"), f"{column} is not one value"
    assert set(column.partition("|")[2]) <= set("RWTH")


def test_columns_mean_what_they_mean_in_kubectl() -> None:
    printed = {one["name"].upper(): one["jsonPath"] for one in version()["additionalPrinterColumns"]}
    shown = dict(column.partition("|")[0].split(":") for column in COLUMNS if ":" in column)
    assert {name: printed[name] for name in shown} == shown


# Breaks if a command or an option is renamed, or a key is bound twice.
@pytest.mark.parametrize("name", PLUGINS["plugins"])
def test_a_key_runs_a_command_that_exists(name: str, parse_only: None) -> None:
    plugin = PLUGINS["plugins"][name]
    line = plugin["args"][1] if plugin["command"] == "sh" else " ".join([plugin["command"], *plugin["args"]])
    (program, *arguments), *rest = commands(line.replace("$NAMESPACE", "vision").replace("$NAME", "vit-faces"))
    assert (program, rest) in (("holdfast", []), ("holdfast", [["less", "-R"]]))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert {"shortCut", "description", "scopes", "command", "args"} <= plugin.keys()
    keys = [other["shortCut"] for other in PLUGINS["plugins"].values()]
    assert keys.count(plugin["shortCut"]) == 1
