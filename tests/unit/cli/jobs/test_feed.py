"""The line about memory and data of a job, and where it is shown."""

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console
from tests.support.manifests.observed_jobs import RUNNING, running_job

from holdfast_cli.jobs import describe, feed, view

NOW = datetime(2026, 11, 21, 9, 3, tzinfo=UTC)
HUNGRY = {"dataWait": "0.412", "peakMemory": 12 << 30}
ADVICE = "waits 41% of each step for data: more loader workers, or more cpu"


def job(**progress: Any) -> Any:
    return running_job({"progress": {**RUNNING["progress"], **progress}})


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (HUNGRY, f"data      {ADVICE}   memory  12.0 GiB of an accelerator"),
        ({"dataWait": "0.2"}, "data      waits 20% of each step for data: more loader workers, or more cpu"),
        ({"dataWait": "0.19"}, "data      waits 19% of each step for data"),  # a fed one gets no advice
        ({"peakMemory": 1 << 29}, "memory    512.0 MiB of an accelerator"),
        ({"dataWait": "nan"}, None),
        ({}, None),
    ],
)
def test_the_line(progress: dict[str, Any], said: str | None) -> None:
    found = feed.line(job(**progress))
    assert (None if found is None else found.plain) == said


# Breaks if people who look at a job are not told why its accelerator waits, or a line takes room on a full screen.
def test_where_it_is_shown() -> None:
    console = Console(width=140, force_terminal=False)
    with console.capture() as captured:
        describe.show(console, job(**HUNGRY), [], NOW)
        console.print(view.job_screen(job(**HUNGRY), [], NOW, view.Losses(), room=20))
    assert captured.get().count(ADVICE) == 2
    heights = []
    for known in ({}, HUNGRY):
        with console.capture() as captured:
            console.print(view.job_screen(job(**known), [], NOW, view.Losses(), room=19))
        heights.append(len(captured.get().splitlines()))
    assert max(heights) <= 19
