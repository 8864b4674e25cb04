"""The page of a package: what it says, that a browser draws it, and that no text in it becomes HTML."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import chromium, tab

from holdfast_model.package.report_page import _bar, report_page


def entry(name: str, size: int, tested: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    return {"files": {f"{name}/model": {"bytes": size, "sha256": "0" * 64}}, "tested": tested, **more}


def figures(largest: str, agreement: str, score: str) -> dict[str, Any]:
    return {"passed": True, "largest": largest, "agreement": agreement, "score": score}


def document(name: str = "vit-faces-000000048000") -> dict[str, Any]:
    return {
        "name": name,
        "from": {
            "step": 48000, "manifest": "s3://runs/vision/vit-faces/manifests/000000048000-a4-d07a4418b95e.json",
            "jobUid": "1f0c", "sha256": "d0" * 32,
            "metrics": {"loss": "0.21130000054836273", "eval/accuracy": "0.9412"},
        },
        "made": {"at": "2026-11-25T06:00:00+00:00", "versions": {"torch": "2.15.0", "onnxruntime": "1.32.0"}},
        "problem": {
            "inputs": [{"name": "images", "dtype": "float32", "shape": ["batch", 3, 224, 224]}],
            "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 1000]}],
            "dims": {"batch": [1, 64]},
        },
        "tests": {
            "cases": [{"dims": {"batch": 4}}, {"dims": {"batch": 1}}, {"dims": {"batch": 64}}],
            "leftOut": ["time = 4096 is not tested: it takes 512 MiB"],
        },
        "score": {"name": "accuracy", "reference": "0.8275", "maxDrop": "0.01", "samples": 400},
        "variants": {
            "safetensors": entry("safetensors", 1_841_000, {"passed": True}),
            "pt2": entry("pt2", 2_030_000, figures("0", "1.0000", "0.8275"), tolerance="0.0001"),
            "onnx": entry("onnx", 2_009_789, figures("2.3e-07", "1.0000", "0.8275"), tolerance="0.0001"),
            "onnx-fp16": entry("fp16", 1_090_000, figures("0.012", "0.9990", "0.8300"), tolerance="0.02"),
            "onnx-int8": entry("int8", 530_000, figures("0.069", "0.9670", "0.8200"), note="static"),
            "tflite": entry("tflite", 610_000, None, note="made by a command; not tested"),
        },
    }  # fmt: skip


FAILED = {"chip": "it could not be made: PackageError: the command compile ended with exit code 1: no such operator"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


def test_what_it_says() -> None:
    page = report_page(document(), FAILED)
    assert "<dd>0.2113</dd>" in page
    for text in (
        "48,000",
        "eval/accuracy",
        "0.9412",
        "accuracy in torch",
        "on 400 samples",
        "1, 4, 64",
        "no such operator",
    ):
        assert text in page
    assert "0.0075 less, of 0.01" in page
    assert "0.0025 more" in page
    assert page.count(">passed<") == 5
    assert page.count(">not tested<") == 1
    bare = document() | {"problem": {**document()["problem"], "dims": {}}, "tests": {"cases": []}, "variants": {}}
    del bare["score"]
    assert "Did not pass" not in report_page(bare, {})


# Breaks if a bar of a variant that uses more than is allowed, or of no number, looks as if it passed.
@pytest.mark.parametrize(
    ("part", "width", "over"),
    [(0.5, "50.00", False), (-1, "0.00", False), (3, "100.00", True), (float("nan"), "100.00", True)],
    ids=["half", "less", "more", "none"],
)
def test_bars(part: float, width: str, over: bool) -> None:
    bar = _bar(part, "used")
    assert f'width="{width}"' in bar
    assert ("over" in bar) == over


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (400, True)], ids=["wide", "phone"])
def test_a_browser_draws_it_without_errors_and_requests(browser: Any, tmp_path: Path, width: int, dark: bool) -> None:
    file = tmp_path / "report.html"
    file.write_text(report_page(document(), FAILED), encoding="utf-8")
    with tab(browser, width=width, dark=dark) as seen:
        seen.page.goto(file.as_uri())
        assert seen.errors == []
        assert seen.requests == [file.as_uri()]
        assert seen.overflow() <= 0
        color = seen.page.evaluate("getComputedStyle(document.querySelector('.chip.good')).color")
        assert color == ("rgb(76, 195, 138)" if dark else "rgb(26, 127, 75)"), "the style is allowed and read"
        seen.page.screenshot(path=tmp_path / "page.png", full_page=True)
