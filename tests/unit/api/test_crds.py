"""The generated CRDs."""

from pathlib import Path
from typing import Any

import yaml

from holdfast.api import crds, names

ROOT = Path(__file__).parents[3]


def test_the_checked_in_files_are_what_the_models_say() -> None:
    assert {path.name: path.read_text() for path in (ROOT / "crds").iterdir()} == crds.files()


def test_the_files_say_that_they_are_generated_and_hold_no_aliases() -> None:
    for text in crds.files().values():
        assert text.startswith("# Generated")
        assert "&id" not in text


def test_jobs_show_what_people_ask_for() -> None:
    job, profile = crds.manifests()
    spec = job["spec"]
    assert (spec["scope"], spec["names"]["shortNames"], spec["names"]["categories"]) == (
        "Namespaced",
        ["tj"],
        ["training"],
    )
    version = spec["versions"][0]
    assert version["subresources"] == profile["spec"]["versions"][0]["subresources"] == {"status": {}}
    columns = version["additionalPrinterColumns"]
    first = [column["name"].upper() for column in columns if not column.get("priority")]
    assert first[:7] == ["PHASE", "TIER", "NODES", "STEP", "PERCENT", "ETA", "COST"]
    assert first[7:] == ["EXPECTED", "SAVINGS", "SLACK", "INTERRUPTIONS", "AGE"]
    assert [column["name"].upper() for column in columns if column.get("priority")] == [
        "LOSS", "CHECKPOINT", "NODE", "REASON",
    ]  # fmt: skip
    assert (profile["spec"]["scope"], profile["metadata"]["name"]) == (
        "Cluster",
        f"{names.PROFILE_PLURAL}.{names.GROUP}",
    )


def test_columns_point_at_fields_that_exist() -> None:
    version = crds.manifests()[0]["spec"]["versions"][0]
    for column in version["additionalPrinterColumns"]:
        place: Any = version["schema"]["openAPIV3Schema"]
        if column["jsonPath"].startswith(".metadata"):
            continue
        for part in column["jsonPath"].strip(".").split("."):
            place = place["properties"][part]


def test_the_files_are_yaml_of_the_manifests() -> None:
    assert [yaml.load(text, yaml.CSafeLoader) for text in crds.files().values()] == crds.manifests()
