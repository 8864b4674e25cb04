"""Whether a program's accelerator has enough memory and data, in words. Pure."""

from typing import Final

from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast_cli.terminal import formats
from holdfast_train.exchange.progress_bar import format_size

STARVED: Final = 0.2  # share of a step's time: at this much waiting for data, people are told what to do


def data_words(share: float) -> str:
    """`waits 41% of each step for data: more loader workers, or more cpu`; without the advice if it is little."""
    advice = ": more loader workers, or more cpu" if share >= STARVED else ""
    return f"waits {share:.0%} of each step for data{advice}"


def line(job: TrainingJob) -> Text | None:
    """The wait for data, and the peak of memory, on one line; None if neither is known."""
    progress, parts = job.status.progress, list[Text]()
    share = formats.number(progress.data_wait)
    if share is not None and 0 <= share <= 1:
        style = "yellow" if share >= STARVED else ""
        parts.append(Text.assemble(("data      ", "dim"), (data_words(share), style)))
    if progress.peak_memory:
        label = "memory  " if parts else "memory    "
        parts.append(Text.assemble((label, "dim"), f"{format_size(progress.peak_memory)} of an accelerator"))
    return Text("   ").join(parts) if parts else None
