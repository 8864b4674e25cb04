"""What is in a package, on a terminal. A package.json may come from a stranger, so nothing in it is trusted. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from holdfast.api.scalars import EXACT
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_train.exchange.lines import printable
from holdfast_train.exchange.progress_bar import format_size

LONGEST_CELL: Final = 60  # characters
LONGEST_REASON: Final = 500
_STYLES: Final = {"accepted": "green", "refused": "bold red", "not tested": "yellow"}


def headline(document: Mapping[str, Any]) -> str:
    """The step of the model, and how good it was in torch."""
    origin, score = _object(document.get("from")), _object(document.get("score"))
    measured = f"; {_cell(score.get('name'))} in torch: {_cell(score.get('reference'))}" if score else ""
    return f"step {formats.count(_number(origin.get('step')))}{measured}"


def variants(document: Mapping[str, Any]) -> Fitting:
    """The table: a line for each variant, and one for each that was refused."""
    metric = _cell(_object(document.get("score")).get("name") or "score")
    columns = (
        Column("VARIANT"),
        Column("FILE", rank=2),
        Column("SIZE", right=True),
        Column("DIFFERENCE", rank=3, right=True),
        Column("AGREEMENT", rank=4, right=True),
        Column(metric.upper(), rank=1, right=True),
        Column("RESULT"),
    )
    rows = [_row(name, _object(entry)) for name, entry in _object(document.get("variants")).items()]
    there = {row[0] for row in rows}
    nothing = [formats.NOTHING] * (len(columns) - 2)
    rows += [[_cell(name), *nothing, "refused"] for name in _object(document.get("failed")) if _cell(name) not in there]
    return Fitting(columns, [[*map(Text, row[:-1]), Text(row[-1], style=_STYLES.get(row[-1], ""))] for row in rows])


def refusals(document: Mapping[str, Any]) -> list[str]:
    """Why each variant that was refused did not pass."""
    failed = _object(document.get("failed"))
    return [printable(f"{_cell(name)} did not pass: {str(why)[:LONGEST_REASON]}") for name, why in failed.items()]


def _row(name: str, entry: Mapping[str, Any]) -> Sequence[str]:
    files = _object(entry.get("files")).values()
    size = sum(_number(_object(one).get("bytes")) for one in files)
    tested = _object(entry.get("tested"))
    result = "not tested" if "passed" not in tested else "accepted" if tested["passed"] is True else "refused"
    figures = [_cell(tested.get(key, formats.NOTHING)) for key in ("largest", "agreement", "score")]
    return [_cell(name), _cell(entry.get("model", formats.NOTHING)), format_size(size), *figures, result]


def _cell(value: Any) -> str:
    text = printable(" ".join(str(value).split()))
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


def _number(found: Any) -> int:
    """A count that people can read; 0 for what is none."""
    return found if type(found) is int and 0 <= found <= EXACT else 0


def _object(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}
