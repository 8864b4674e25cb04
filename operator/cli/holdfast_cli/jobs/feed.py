"""What the figures of a program say about its accelerator, in words. Pure."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final, NamedTuple

from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast_cli.terminal import formats
from holdfast_protocol.figures import BYTES, LOSS, NUMBER, ROWS, SHARE, readable
from holdfast_train.exchange.progress_bar import format_size


class Line(NamedTuple):
    """What is said of a figure. `words`: `{}` is the value. `advice`: from the value `much` on."""

    label: str
    words: str
    advice: str = ""
    much: float = inf


DATA_WAIT: Final = "data_wait"
LINES: Final = {  # by the name of the figure
    DATA_WAIT: Line("data", "waits {} of each step for data", ": more loader workers, or more cpu", 0.2),
    "peak_memory": Line("memory", "{} of an accelerator"),
}
_FORMATS: Final[Mapping[str, Callable[[Any], str]]] = {
    BYTES: format_size, SHARE: "{:.0%}".format, NUMBER: "{:,.4g}".format, LOSS: "{:,.4g}".format,
}  # fmt: skip
_KINDS: Final = {row.name: row.kind for row in ROWS}
LABEL: Final = 10  # columns of the first label


def line(job: TrainingJob) -> Text | None:
    """The figures in LINES, on one line; None if none of them is known."""
    known = readable(job.status.progress.model_dump(by_alias=True))
    parts = list[Text]()
    for name, shown in LINES.items():
        if (value := _number(getattr(known, name))) is None:
            continue
        label = f"{shown.label}  " if parts else shown.label.ljust(LABEL)
        said = in_words(name, value)
        parts.append(Text.assemble((label, "dim"), (said, "yellow" if is_much(name, value) else "")))
    return Text("   ").join(parts) if parts else None


def in_words(name: str, value: float) -> str:
    """`waits 41% of each step for data: more loader workers, or more cpu`; without the advice if it is little."""
    said = LINES[name].words.format(_FORMATS[_KINDS[name]](value))
    return said + (LINES[name].advice if is_much(name, value) else "")


def is_much(name: str, value: float) -> bool:
    """True if people are told what to do."""
    return value >= LINES[name].much


def _number(value: str | int | None) -> float | None:
    return formats.number(value) if isinstance(value, str) else value
