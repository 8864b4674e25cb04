"""The generated reference of fields."""

from pathlib import Path

import pytest
from scripts.generate import fields_page

ROOT = Path(__file__).parents[4]


def test_the_checked_in_file_is_what_the_models_say() -> None:
    assert fields_page.main(["--check", str(ROOT / "docs" / "reference" / "api.md")]) == 0


def test_every_field_and_rule_is_there() -> None:
    text = fields_page.text()
    for words in (
        "### spec.capacity.tiers[]",
        "| `tiers` | list of object |",
        "| `image`\\* | string |",
        "`Spot` or `Dedicated` or `CPU`",
        "| `nodeSelector` | map to string |",
        "- Rule: exactly one of profile and tiers must be set.",
        "must be between 1s and 1h",
        "### status.history[]",
    ):
        assert words in text


def test_a_stale_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "docs" / "reference" / "api.md"
    assert fields_page.main(["--check", str(file)]) == 1
    assert fields_page.main([str(file)]) == 0
    assert fields_page.main(["--check", str(file)]) == 0
    assert f"{file} is out of date" in capsys.readouterr().err
