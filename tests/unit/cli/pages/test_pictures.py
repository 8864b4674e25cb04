"""The timeline and the bars as SVG."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.pages.long_job import NOW, a_job
from tests.support.pages.read_html import Read

from holdfast_cli.jobs.timeline import Bar, End, Timeline, timeline
from holdfast_cli.pages.pictures import divided_bar, progress_bar, timeline_picture

BEGIN = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)


def bar(tier: str, *minutes: int, end: End | None = None, number: int = 1, node: str = "") -> Bar:
    """Five marks, in minutes from BEGIN."""
    a, b, c, d, e = (BEGIN + timedelta(minutes=one) for one in minutes)
    return Bar(tier, (a, b, c, d, e), end, number, node)


def drawn(*bars: Bar, kinds: dict[str, str] | None = None, folded: int = 0) -> str:
    return timeline_picture(Timeline(bars, kinds or {}, list(dict.fromkeys(one.tier for one in bars)), folded, UTC))


def places(html: str, kind: str) -> list[tuple[str, str]]:
    """Left edge and width of the stages of this kind."""
    return re.findall(rf'<rect class="{kind}" x="([\d.]+)%" y="\d+" width="([\d.]+)%"', html)


def test_stages_ends_and_their_places() -> None:
    html = drawn(bar("spot", 0, 10, 20, 80, 100, end=End.INTERRUPTED, node="n1"), kinds={"spot": "Spot"})
    assert places(html, "waiting") == [("0.000", "10.000")]
    assert places(html, "starting") == [("10.000", "10.000")]
    assert places(html, "training") == [("20.000", "60.000")]
    assert places(html, "leaving") == [("80.000", "20.000")]
    assert '<g class="kind-spot">' in html
    assert "attempt 1 on spot, n1: waiting 10m00s, starting 10m00s, training 1h00m, leaving 20m00s; interrupted" in html
    assert '<text class="end end-interrupted" x="100.000%"' in html
    assert ">1 · n1</text>" in html
    assert "2026-11-21 07:00 to 2026-11-21 08:40, 1h40m." in Read(html).text


# Breaks if one attempt hides another: a successor starts while the attempt before it still trains.
def test_attempts_that_overlap_have_lanes_of_their_own() -> None:
    second, third = bar("spot", 50, 50, 50, 90, 90, number=2), bar("spot", 60, 60, 60, 99, 99, number=3)
    html = drawn(bar("spot", 0, 0, 0, 60, 60), second, third)
    tops = re.findall(r'<rect class="training" x="([\d.]+)%" y="(\d+)"', html)
    assert tops == [("0.000", "22"), ("60.606", "22"), ("50.505", "50")]
    assert html.count('class="lane"') == 2


def test_the_legend_names_only_what_is_there() -> None:
    text = Read(drawn(bar("spot", 0, 0, 0, 60, 60, end=End.COMPLETE), folded=3)).text
    assert "training" in text
    assert "complete" in text
    assert "waiting" not in text
    assert "failed" not in text
    assert "3 further attempts are kept only as sums, in the cost." in text


@pytest.mark.parametrize("minutes", [(0, 0, 0, 0, 0), (0, 0, 0, 0, 1), (0, 1, 1, 1, 600_000)])
def test_any_length_of_time(minutes: tuple[int, ...]) -> None:
    html = drawn(bar("spot", *minutes, end=End.FAILED))
    assert html.count('class="tick-label') <= 12
    assert not Read(html).breaches()


def test_a_whole_job() -> None:
    found = timeline(a_job(), NOW, zone=UTC)
    assert found
    html = timeline_picture(found)
    assert [tier for tier in ("spot", "dedicated", "cpu") if f">{tier} <tspan" in html] == ["spot", "dedicated"]
    for said in ("attempt 4 on spot, spot-a100-d09", "; failed", "; moved or stopped", ">5 · ded-a100-1<"):
        assert said in html


def test_a_bar_of_parts() -> None:
    html = divided_bar([("a", 1.0, "1s", "part-0"), ("b", 3.0, "3s", "part-1"), ("c", 0.0, "0s", "part-2")], "Time")
    assert re.findall(r'class="(part-\d)" x="([\d.]+)%" width="([\d.]+)%"', html) == [
        ("part-0", "0.000", "25.000"), ("part-1", "25.000", "75.000"),
    ]  # fmt: skip
    assert Read(html).text == "a: 1s b: 3s a 1s b 3s"
    assert divided_bar([("a", 0.0, "0s", "part-0")], "Time") == ""


@pytest.mark.parametrize(("share", "width"), [(0.0, "0.00%"), (0.645, "64.50%"), (1.7, "100.00%")])
def test_progress_stays_inside_of_its_bar(share: float, width: str) -> None:
    assert f'class="done" width="{width}"' in progress_bar(share)
