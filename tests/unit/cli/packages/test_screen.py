"""The table of what is in a package."""

from typing import Any

import pytest
from rich.console import Console

from holdfast_cli.packages.screen import headline, refusals, variants

DOCUMENT: dict[str, Any] = {
    "from": {"step": 800},
    "score": {"name": "accuracy", "reference": "0.9925"},
    "variants": {
        "onnx": {
            "model": "onnx/model.onnx",
            "files": {"onnx/model.onnx": {"bytes": 2048}, "onnx/model.onnx.data": {"bytes": 1024}},
            "tested": {"passed": True, "largest": "2.3e-07", "score": "0.9925"},
        },
        "tflite": {"model": "tflite/model.tflite", "files": {}, "tested": None},
        "onnx-fp16": {"model": "onnx-fp16/model.onnx", "files": {}, "tested": {"passed": False}},
    },
    "failed": {"onnx-int8": "accuracy is 0.41, below 0.9825", "onnx-fp16": "differs"},
}


def shown(document: Any, width: int = 120) -> list[list[str]]:
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(variants(document))
    return [line.split() for line in captured.get().splitlines()]


# Breaks if a variant that did not pass looks like one that did, or is not in the table.
def test_a_line_for_each_variant_and_for_each_that_was_refused() -> None:
    head, _, *rows = shown(DOCUMENT)
    assert "ACCURACY" in head
    assert [(row[0], row[-1]) for row in rows] == [
        ("onnx", "accepted"), ("tflite", "tested"), ("onnx-fp16", "refused"), ("onnx-int8", "refused"),
    ]  # fmt: skip
    assert rows[0][1:7] == ["onnx/model.onnx", "3.0", "KiB", "2.3e-07", "-", "0.9925"]
    assert headline(DOCUMENT) == "step 800; accuracy in torch: 0.9925"
    assert refusals(DOCUMENT)[0] == "onnx-int8 did not pass: accuracy is 0.41, below 0.9825"


def test_on_a_narrow_screen_variant_size_and_result_stay() -> None:
    head, *_ = shown(DOCUMENT, width=40)
    assert head == ["VARIANT", "SIZE", "ACCURACY", "RESULT"]


# Breaks if the package of a stranger, with anything in any field, ends the command with a traceback.
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"from": 3, "score": [], "variants": {"x": 3}, "failed": "all"},
        {
            "variants": {
                "x" * 500: {"files": {"a": {"bytes": "many"}}, "tested": {"passed": "yes", "largest": "9" * 500}}
            }
        },
    ],
    ids=["nothing", "other types", "long values"],
)
def test_nothing_in_it_is_trusted(document: Any) -> None:
    assert headline(document).startswith("step ")
    assert all(row[-1] != "accepted" for row in shown(document))
    refusals(document)
