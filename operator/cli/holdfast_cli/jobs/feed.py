"""What the figures of a program say about its accelerator, in words. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast_cli.terminal import formats
from holdfast_protocol.figures import BYTES, LOSS, NUMBER, ROWS, SHARE, Row, readable
from holdfast_train.exchange.progress_bar import format_size

_FORMATS: Final[Mapping[str, Callable[[Any], str]]] = {
    BYTES: format_size, SHARE: "{:.0%}".format, NUMBER: "{:,.4g}".format, LOSS: "{:,.4g}".format,
}  # fmt: skip
LABEL: Final = 10  # columns of the first label


def line(job: TrainingJob) -> Text | None:
    """The figures that have a `line` in the table, on one line; None if none of them is known."""
    known = readable(job.status.progress.model_dump(by_alias=True))
    parts = list[Text]()
    for row in ROWS:
        if row.line is None or (value := _number(getattr(known, row.name))) is None:
            continue
        label = f"{row.line.label}  " if parts else row.line.label.ljust(LABEL)
        said = in_words(row, value)
        parts.append(Text.assemble((label, "dim"), (said, "yellow" if is_much(row, value) else "")))
    return Text("   ").join(parts) if parts else None


def in_words(row: Row, value: float) -> str:
    """`waits 41% of each step for data: more loader workers, or more cpu`; without the advice if it is little."""
    assert row.line is not None
    said = row.line.words.format(_FORMATS[row.kind](value))
    return said + (row.line.advice if is_much(row, value) else "")


def is_much(row: Row, value: float) -> bool:
    """True if people are told what to do."""
    return row.line is not None and value >= row.line.much


def _number(value: str | int | None) -> float | None:
    return formats.number(value) if isinstance(value, str) else value
