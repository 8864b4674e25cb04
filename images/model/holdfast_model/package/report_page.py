"""report.html of a package: README.md with bars, for a browser. One file, which runs no script and loads nothing.

Every text may come from a stranger. The rule for the browser allows this one style, and pictures that are inside of
the file.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast_model.pages.document import document as page
from holdfast_model.pages.fragments import Figure, size_text
from holdfast_model.pages.template import Markup, Template

STYLE: Final = Path(__file__).with_name("report_page.css")
MOST_METRICS: Final = 12
_HTML: Final = Template(__name__)


def report_page(document: Mapping[str, Any], failed: Mapping[str, str]) -> str:
    """The page. `failed`: variants that are not in the package, or are marked as failed, with the reason."""
    parts = [_heading(document), _variants(document), *([_HTML.failures(failed.items())] if failed else [])]
    return page(" ".join(document["name"].split()), [*parts, _problem(document), _made(document)], STYLE)


def _heading(document: Mapping[str, Any]) -> Markup:
    origin, score = document["from"], document.get("score")
    figures = [Figure("step", f"{origin['step']:,}")]
    if score:
        samples = f"on {score['samples']:,} samples" if "samples" in score else ""
        figures.append(Figure(f"{score['name']} in torch", score["reference"], samples))
    figures += [Figure(name, _short(value)) for name, value in list(origin.get("metrics", {}).items())[:MOST_METRICS]]
    return _HTML.heading(name=document["name"], manifest=origin["manifest"], found=figures)


class _Measure(NamedTuple):
    """A figure of a variant, a small line below it, and its bar."""

    said: str = ""
    more: str = ""
    bar: Markup = Markup()


class _Result(NamedTuple):
    """Of the test of a variant."""

    kind: str
    said: str


class _Variant(NamedTuple):
    """A row of the table."""

    name: str
    result: _Result
    size: _Measure
    difference: _Measure
    agreement: str
    drop: _Measure
    note: str


def _variants(document: Mapping[str, Any]) -> Markup:
    score = document.get("score")
    sizes = {name: sum(one["bytes"] for one in entry["files"].values()) for name, entry in document["variants"].items()}
    largest = max(sizes.values(), default=1) or 1
    rows = []
    for name, entry in document["variants"].items():
        tested = entry["tested"] or {}
        rows.append(
            _Variant(
                name=name,
                result=_result(entry["tested"]),
                size=_Measure(size_text(sizes[name]), bar=_bar(sizes[name] / largest, "size")),
                difference=_difference(tested.get("largest"), entry.get("tolerance")),
                agreement=tested.get("agreement", ""),
                drop=_drop(tested.get("score"), score),
                note=entry.get("note", ""),
            )
        )
    return _HTML.variants(rows=rows, score=score["name"] if score else "", cases=len(document["tests"]["cases"]))


def _result(tested: Mapping[str, Any] | None) -> _Result:
    if tested is None:
        return _Result("open", "not tested")
    return _Result("good", "passed") if tested["passed"] else _Result("bad", "failed")


def _difference(largest: str | None, tolerance: str | None) -> _Measure:
    if largest is None:
        return _Measure()
    if not tolerance or not _number(tolerance):
        return _Measure(largest)
    return _Measure(largest, f"of {tolerance}", _bar(_number(largest) / _number(tolerance), "used"))


def _drop(scored: str | None, score: Mapping[str, Any] | None) -> _Measure:
    """The score, and how much of the drop that is allowed it takes."""
    if scored is None or score is None:
        return _Measure()
    drop, most = _number(score["reference"]) - _number(scored), _number(score["maxDrop"])
    said = f"{drop:.4f} less, of {most:g}" if drop > 0 else f"{-drop:.4f} more" if drop < 0 else "as in torch"
    return _Measure(scored, said, _bar(drop / most, "used") if most else Markup())


def _bar(part: float, kind: str) -> Markup:
    """A bar of which `part`, 0 to 1, is filled; more than 1 fills it in another colour."""
    over = " over" if kind == "used" and not part <= 1 else ""
    width = 100.0 if math.isnan(part) else 100 * min(max(part, 0.0), 1.0)
    return _HTML.bar(kind=f"{kind}{over}", width=f"{width:.2f}")


def _problem(document: Mapping[str, Any]) -> Markup:
    problem, tests = document["problem"], document["tests"]
    tensors = [
        {"side": side, "name": one["name"], "dtype": one["dtype"], "shape": ", ".join(map(str, one["shape"]))}
        for side, key in (("input", "inputs"), ("output", "outputs"))
        for one in problem[key]
    ]
    symbols = list(_symbols(problem["dims"], [one["dims"] for one in tests["cases"]]))
    return _HTML.problem(tensors=tensors, symbols=symbols, left_out=tests.get("leftOut", ()))


def _symbols(dims: Mapping[str, tuple[int, int]], cases: list[Mapping[str, int]]) -> Iterator[Mapping[str, str]]:
    """Of each symbolic size: its range, and the sizes that were tested."""
    for symbol, (least, most) in dims.items():
        tested = sorted({case[symbol] for case in cases if symbol in case})
        yield {"name": symbol, "sizes": f"{least:,} to {most:,}", "tested": ", ".join(f"{size:,}" for size in tested)}


def _made(document: Mapping[str, Any]) -> Markup:
    origin, made = document["from"], document["made"]
    pairs = {
        "made at": made["at"],
        "with": ", ".join(f"{name} {version}" for name, version in made["versions"].items()),
        "job UID": origin["jobUid"],
        "manifest": f"SHA-256 {origin['sha256']}",
        **({"revision": origin["revision"]} if origin.get("revision") else {}),
    }
    return _HTML.made(pairs.items())


def _short(value: str) -> str:
    """A number with at most six digits: a float has up to seventeen. Other text as it is."""
    number = _number(value)
    return f"{number:.6g}" if math.isfinite(number) else value


def _number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        return float("nan")
