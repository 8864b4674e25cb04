"""report.html of a package: README.md with bars, for a browser. One file, which runs no script and loads nothing.

Every text may come from a stranger, and is escaped. The rule for the browser allows this one style, and pictures that
are inside of the file.
"""

import math
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any, Final

from holdfast_model.pages.document import document as page
from holdfast_model.pages.fragments import size_text

__all__ = ["report_page"]

STYLE: Final = Path(__file__).with_name("report_page.css")
MOST_METRICS: Final = 12


def report_page(document: Mapping[str, Any], failed: Mapping[str, str]) -> str:
    """The page. `failed`: variants that are not in the package, or are marked as failed, with the reason."""
    parts = [_heading(document), _variants(document), *([_failures(failed)] if failed else []), _problem(document)]
    return page(" ".join(document["name"].split()), [*parts, _made(document)], STYLE)


def _heading(document: Mapping[str, Any]) -> str:
    origin, score = document["from"], document.get("score")
    figures = [("step", f"{origin['step']:,}", "")]
    if score:
        samples = f"on {score['samples']:,} samples" if "samples" in score else ""
        figures.append((f"{score['name']} in torch", score["reference"], samples))
    figures += [(name, _short(value), "") for name, value in list(origin.get("metrics", {}).items())[:MOST_METRICS]]
    shown = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}{_small(more)}</dd></div>" for name, value, more in figures
    )
    return (
        f"<h1>{_text(document['name'])}</h1>"
        f'<p class="meta">From the checkpoint {_text(origin["manifest"])}</p><dl class="figures">{shown}</dl>'
    )


def _variants(document: Mapping[str, Any]) -> str:
    score = document.get("score")
    sizes = {name: sum(one["bytes"] for one in entry["files"].values()) for name, entry in document["variants"].items()}
    largest = max(sizes.values(), default=1) or 1
    head = ("variant", "test", "size", "largest difference", "agreement", score["name"] if score else "", "note")
    rows = []
    for name, entry in document["variants"].items():
        tested = entry["tested"] or {}
        rows.append((
            f'<span class="name">{_text(name)}</span>',
            _result(entry["tested"]),
            f"{size_text(sizes[name])}{_bar(sizes[name] / largest, 'size')}",
            _difference(tested.get("largest"), entry.get("tolerance")),
            _text(tested.get("agreement", "")),
            _drop(tested.get("score"), score),
            f'<span class="quiet">{_text(entry.get("note", ""))}</span>',
        ))  # fmt: skip
    cases = len(document["tests"]["cases"])
    said = (
        f"Each variant that was tested ran in a process of its own, on {cases} test inputs. Bars show the size beside "
        f"the largest one, and how much a variant uses of the difference, or of the drop of the score, that is allowed."
    )
    return f'<h2>Variants</h2>{_table(head, rows)}<p class="quiet">{said}</p>'


def _result(tested: Mapping[str, Any] | None) -> str:
    if tested is None:
        return '<span class="chip open">not tested</span>'
    return '<span class="chip good">passed</span>' if tested["passed"] else '<span class="chip bad">failed</span>'


def _difference(largest: str | None, tolerance: str | None) -> str:
    if largest is None:
        return ""
    used = _number(largest) / _number(tolerance) if tolerance and _number(tolerance) else None
    allowed = _small(f"of {tolerance}") if used is not None else ""
    return _text(largest) + allowed + ("" if used is None else _bar(used, "used"))


def _drop(scored: str | None, score: Mapping[str, Any] | None) -> str:
    """The score, and how much of the drop that is allowed it takes."""
    if scored is None or score is None:
        return ""
    drop, most = _number(score["reference"]) - _number(scored), _number(score["maxDrop"])
    said = f"{drop:.4f} less, of {most:g}" if drop > 0 else f"{-drop:.4f} more" if drop < 0 else "as in torch"
    return _text(scored) + _small(said) + (_bar(drop / most, "used") if most else "")


def _bar(part: float, kind: str) -> str:
    """A bar of which `part`, 0 to 1, is filled; more than 1 fills it in another colour."""
    over = " over" if kind == "used" and not part <= 1 else ""
    width = 100.0 if math.isnan(part) else 100 * min(max(part, 0.0), 1.0)
    return (
        '<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="whole" width="100" height="4"/><rect class="{kind}{over}" width="{width:.2f}" height="4"/></svg>'
    )


def _failures(failed: Mapping[str, str]) -> str:
    rows = [(f'<span class="name">{_text(name)}</span>', _text(why)) for name, why in failed.items()]
    return f"<h2>Did not pass</h2>{_table(('variant', 'why'), rows)}"


def _problem(document: Mapping[str, Any]) -> str:
    problem = document["problem"]
    rows = [
        (
            side,
            f"<code>{_text(one['name'])}</code>",
            _text(one["dtype"]),
            f"({_text(', '.join(map(str, one['shape'])))})",
        )
        for side, key in (("input", "inputs"), ("output", "outputs"))
        for one in problem[key]
    ]
    found = f"<h2>Inputs and outputs</h2>{_table(('', 'name', 'type', 'shape'), rows)}"
    if problem["dims"]:
        cases = [one["dims"] for one in document["tests"]["cases"]]
        sizes = [
            (
                f"<code>{_text(symbol)}</code>", f"{least:,} to {most:,}",
                ", ".join(f"{size:,}" for size in sorted({case[symbol] for case in cases if symbol in case})),
            )
            for symbol, (least, most) in problem["dims"].items()
        ]  # fmt: skip
        found += _table(("symbol", "sizes", "tested at"), sizes)
    left_out = "".join(f'<p class="quiet">{_text(one)}</p>' for one in document["tests"].get("leftOut", ()))
    return found + left_out


def _made(document: Mapping[str, Any]) -> str:
    origin, made = document["from"], document["made"]
    pairs = {
        "made at": made["at"],
        "with": ", ".join(f"{name} {version}" for name, version in made["versions"].items()),
        "job UID": origin["jobUid"],
        "manifest": f"SHA-256 {origin['sha256']}",
        **({"revision": origin["revision"]} if origin.get("revision") else {}),
    }
    shown = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in pairs.items())
    return f'<h2>Where it is from</h2><dl class="pairs">{shown}</dl>'


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; the cells of `rows` are HTML."""
    top = "".join(f"<th>{_text(one)}</th>" for one in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _short(value: str) -> str:
    """A number with at most six digits: a float has up to seventeen. Other text as it is."""
    number = _number(value)
    return f"{number:.6g}" if math.isfinite(number) else value


def _small(text: str) -> str:
    return f"<small>{_text(text)}</small>" if text else ""


def _number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        return float("nan")


def _text(value: object) -> str:
    return escape(" ".join(str(value).split()))
