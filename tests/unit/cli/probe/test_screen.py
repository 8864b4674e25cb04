"""The table of a probe."""

from datetime import timedelta
from decimal import Decimal
from io import StringIO

from holdfast_cli.probe.measure import Outcome, Pace, Result, Scaling
from holdfast_cli.probe.screen import show
from holdfast_cli.terminal.console import console

T4 = Result(
    tier="spot-t4",
    accelerators=1,
    nodes=1,
    price=Decimal("0.36"),
    outcome=Outcome.MEASURED,
    steps=60,
    pace=Pace(0.0532171, "median"),
    samples_per_second=1202.5,
    acquire=timedelta(seconds=42),
    start=timedelta(seconds=95),
)
V100 = Result("v100", 1, 1, Decimal("3.06"), Outcome.NO_NODE, "no node within 2m: Insufficient nvidia.com/gpu")
CPU = Result("cpu", 0, 1, None, Outcome.FAILED, "ExitCode: exit code 1\nValueError: \x1b[2Jno [bold]GPU[/bold]")


def shown(*results: Result, scalings: tuple[Scaling, ...] = ()) -> str:
    out = StringIO()
    show("vit", 60, results, scalings, console(out, wide=True))
    return out.getvalue()


# Breaks if a figure, a reason or the last lines of a program are left out, or the lines control the terminal.
def test_a_person_reads_figures_and_reasons() -> None:
    text = shown(T4, V100, CPU)
    lines = [line.split() for line in text.splitlines()]
    assert [*lines[2][:-1]] == [
        "TIER",
        "ACCELERATORS",
        "ACQUIRE",
        "START",
        "PACE",
        "SAMPLES/S",
        "1M",
        "STEPS",
        "1M",
        "SAMPLES",
    ]
    assert ["spot-t4", "1", "42.0s", "1m35s", "53.22ms", "1,202.5", "5.32", "0.0832", "measured"] in lines
    assert "v100: no node within 2m: Insufficient nvidia.com/gpu" in text
    assert "cpu: ExitCode: exit code 1\nValueError: �[2Jno [bold]GPU[/bold]" in text


def test_a_column_appears_once_it_is_known() -> None:
    assert "PEAK MEMORY" not in shown(T4)
    fed = Result("t4", 1, 1, None, Outcome.MEASURED, pace=Pace(2.5, "mean"), peak_memory=5 << 30, data_wait=0.41)
    text = shown(fed)
    assert "5.0 GiB" in text
    assert "t4: waits 41% of each step for data: more loader workers, or more cpu" in text
    assert "2.5s" in text
    assert "t4: the pace is the mean of all steps after the first, saves included" in text


def test_scaling_is_a_sentence() -> None:
    text = shown(T4, scalings=(Scaling("h100", 1, 4, 3.612, 0.903, "samples"),))
    assert "h100: 4 accelerators do 3.61 times the samples of 1 (90% of the ideal)" in text
