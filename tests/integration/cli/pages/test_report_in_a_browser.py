"""Reports in a real browser: what is drawn, what a keyboard can do, how it prints, and that nothing else runs.

HOLDFAST_SHOTS=FOLDER keeps pictures of them.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.browser import Watched, ink, shots, tab
from tests.support.pages.hostile_values import job_inputs
from tests.support.pages.long_job import the_inputs

from holdfast_cli.pages.comparison import comparison_page
from holdfast_cli.pages.curves import places
from holdfast_cli.pages.document import document
from holdfast_cli.pages.job_page import job_page
from holdfast_cli.pages.page import Chart, Curve, Fragment
from holdfast_cli.pages.page import Page as Content
from holdfast_model.pages.template import Markup
from holdfast_train.series.history import History, Part
from holdfast_train.series.rows import Row

LOSS = "#chart-metric-loss"
Opened = Callable[..., AbstractContextManager[Watched]]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Opened:
    """Opens a page in a new tab. At its end there must have been no error, and no request but for the page itself."""

    @contextmanager
    def open_(content: Content | None = None, *, width: int = 1200, dark: bool = False) -> Iterator[Watched]:
        file = tmp_path / "report.html"
        file.write_text(document(content or job_page(the_inputs()), live=False), encoding="utf-8")
        with tab(browser, width=width, dark=dark) as found:
            found.page.goto(file.as_uri())
            yield found
            assert found.errors == []
            assert found.requests == [file.as_uri()]

    return open_


def keep(page: Page, name: str) -> None:
    """A picture of the whole page, if somebody wants it."""
    if folder := shots():
        page.screenshot(path=folder / f"{name}.png", full_page=True)


# Breaks if a chart stays empty, if the page is wider than a telephone, or if dark letters stand on dark paper.
# The narrow page in dark and the wide one in light are in every run.
@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (400, True),
        (1600, False),
        pytest.param(400, False, marks=pytest.mark.thorough),
        pytest.param(1600, True, marks=pytest.mark.thorough),
    ],
)
def test_every_chart_is_drawn_at_any_width_in_light_and_dark(opened: Opened, width: int, dark: bool) -> None:
    content = job_page(the_inputs())
    with opened(content, width=width, dark=dark) as found:
        assert found.page.locator(".chart canvas").count() == len(content.charts) == 6
        for chart in content.charts:
            assert ink(found.page, f"#{chart.id}") > 1000, chart.title
        assert found.overflow() <= 0
        paper, letters = (
            found.page.eval_on_selector("section", f"one => getComputedStyle(one).{name}")
            for name in ("backgroundColor", "color")
        )
        assert (sum(brightness(paper)) < 200, sum(brightness(letters)) > 500) == (dark, dark)
        keep(found.page, f"report-{width}{'-dark' if dark else ''}")


def brightness(colour: str) -> list[int]:
    """The parts of `rgb(1, 2, 3)`."""
    return [int(part) for part in colour.strip("rgb()").split(",")[:3]]


def curve_colours(page: Page, selector: str = LOSS) -> list[str]:
    """The colours of the legend."""
    found: list[str] = page.eval_on_selector_all(
        f"{selector} .legend-sign", "all => all.map(one => one.style.background)"
    )
    return found


def test_the_curves_follow_the_scheme_of_the_system(opened: Opened) -> None:
    with opened() as found:
        light = curve_colours(found.page)
        assert len(set(light)) == 6
        found.page.emulate_media(color_scheme="dark")
        expect(found.page.locator(f"{LOSS} canvas")).to_be_visible()
        assert not set(light) & set(curve_colours(found.page))


def test_a_curve_is_hidden_and_shown_with_the_keyboard(opened: Opened) -> None:
    with opened() as found:
        button = found.page.locator(LOSS).get_by_role("button", name="attempt 1")
        blue = curve_colours(found.page)[0]
        before = ink(found.page, LOSS, blue)
        assert before > 100
        button.focus()
        button.press("Space")
        expect(button).to_have_attribute("aria-pressed", "false")
        assert ink(found.page, LOSS, blue) == 0
        button.press("Enter")
        expect(button).to_have_attribute("aria-pressed", "true")
        assert ink(found.page, LOSS, blue) == before


def zoom(page: Page) -> None:
    """Drag over the middle of the loss."""
    box = page.locator(f"{LOSS} .u-over").bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=4)
    page.mouse.up()


def test_a_reader_zooms_in_all_charts_and_back_and_reads_a_value(opened: Opened) -> None:
    with opened() as found:
        whole = found.page.locator(LOSS).get_by_role("button", name="Whole range")
        expect(whole).to_be_hidden()
        zoom(found.page)
        expect(whole).to_be_visible()
        pace = found.page.locator("#chart-pace").get_by_role("button", name="Whole range")
        expect(pace).to_be_visible()
        expect(found.page.locator(f"{LOSS} .readout")).to_contain_text("attempt 3: 1.")
        expect(found.page.locator(f"{LOSS} .readout")).to_contain_text("step 2")
        keep(found.page, "report-zoomed")
        whole.press("Enter")
        expect(whole).to_be_hidden()
        expect(pace).to_be_hidden()


# Breaks if a live page forgets at each update what its reader has hidden, or where the reader looks.
def test_a_chart_that_is_drawn_again_keeps_what_the_reader_did(opened: Opened) -> None:
    again = """() => {
      const charts = JSON.parse(document.getElementById("charts").textContent);
      const curve = charts[0].curves.find((one) => one.label === "attempt 5");
      curve.x.push(50000);
      curve.y.push(20);
      const canvas = document.querySelector("#chart-metric-loss canvas");
      window.holdfast.draw(charts);
      return canvas.isConnected;
    }"""
    replaced = """() => {
      const section = document.getElementById("curves");
      const html = section.cloneNode(true);
      section.replaceWith(html);
      html.querySelectorAll(".chart").forEach((one) => one.replaceChildren());
      window.holdfast.draw(JSON.parse(document.getElementById("charts").textContent));
    }"""
    with opened() as found:
        found.page.locator(LOSS).get_by_role("button", name="attempt 2").click()
        zoom(found.page)
        for change, wanted in ((again, True), (replaced, None)):
            assert found.page.evaluate(change) == wanted
            hidden = found.page.locator(LOSS).get_by_role("button", name="attempt 2")
            expect(hidden).to_have_attribute("aria-pressed", "false")
            expect(found.page.locator(LOSS).get_by_role("button", name="Whole range")).to_be_visible()
            assert found.page.locator(f"{LOSS} canvas").count() == 1


# Breaks if paper cuts a chart off, is dark, or hides what a reader has not opened.
def test_it_prints_on_white_paper(opened: Opened) -> None:
    with opened(dark=True, width=1600) as found:
        page = found.page
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print", color_scheme="dark")
        page.set_viewport_size({"width": 703, "height": 1000})
        edges = page.eval_on_selector_all(
            "canvas, table, svg", "all => all.map(one => one.getBoundingClientRect().right)"
        )
        assert max(edges) <= 704
        assert brightness(page.eval_on_selector("section", "one => getComputedStyle(one).backgroundColor")) == [255] * 3
        assert sum(brightness(page.eval_on_selector("body", "one => getComputedStyle(one).color"))) < 200
        assert page.locator("details:not([open])").count() == 0
        assert ink(page, LOSS) > 1000
        keep(page, "report-paper")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        assert page.locator("details[open]").count() == 0
        assert brightness(page.eval_on_selector("section", "one => getComputedStyle(one).backgroundColor")) != [255] * 3
        page.emulate_media(media="null", color_scheme="null")
        printed = page.pdf(format="A4")
        assert printed.startswith(b"%PDF")
        assert printed.count(b"/Type /Page\n") < 12
        if folder := shots():
            (folder / "report.pdf").write_bytes(printed)


def test_several_jobs_in_one_chart(opened: Opened) -> None:
    with opened(comparison_page([the_inputs("base"), the_inputs("large")])) as found:
        assert [one.strip() for one in found.page.locator(f"{LOSS} .legend-item").all_inner_texts()] == [
            "vision/base", "vision/large", "lost steps",
        ]  # fmt: skip
        assert ink(found.page, "#chart-loss-time") > 1000
        keep(found.page, "comparison")


# Breaks if a name runs as a program. The page's own rule would stop it too, and say so on the console.
def test_hostile_names_are_shown_and_do_nothing(opened: Opened) -> None:
    with opened(job_page(job_inputs('"><script>alert(1)</script><img src=x onerror=alert(2)>'))) as found:
        dialogs: list[str] = []
        found.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        expect(found.page.get_by_role("heading", level=1)).to_contain_text("<script>alert(1)</script>")
        assert found.page.locator("main img").count() == 0
        assert dialogs == []


# Breaks if the rule of the page lets a program in that is not ours: then one forgotten escape is enough.
def test_the_rule_of_a_report_stops_a_program_that_came_in(browser: Browser, tmp_path: Path) -> None:
    bad = "<img src=x onerror='window.came=1'><script>window.came=2</script><p>after</p>"
    file = tmp_path / "report.html"
    file.write_text(document(Content("x", [Fragment("x", Markup(bad))]), live=False), encoding="utf-8")
    with tab(browser) as found:
        found.page.goto(file.as_uri())
        expect(found.page.get_by_text("after")).to_be_visible()
        assert found.page.evaluate("window.came") is None
        assert found.page.evaluate("typeof window.holdfast.draw") == "function"
        assert any("Content Security Policy" in error for error in found.errors)


def test_values_that_no_axis_can_show_and_charts_without_values(opened: Opened) -> None:
    charts = [
        Chart("huge", "Huge", "step", "", [Curve("a", [1, 2, 2**53], [1e308, -1e308, 1e99])]),
        Chart("tiny", "Tiny", "step", "", [Curve("a", [1, 2], [1e-300, 2e-300])]),
        Chart("point", "A point", "time", "", [Curve("a", [1.8e9], [0])]),
        Chart("gaps", "Gaps", "step", "", [Curve("a", [1, 2], [None, None])]),
        Chart("none", "None", "step", "", []),
    ]
    with opened(Content("x", [Fragment("curves", places(charts))], charts)) as found:
        assert found.page.locator("canvas").count() == 5
        expect(found.page.locator("#none [role=img]")).to_have_attribute("aria-label", "None: no values")


def test_100_000_points(opened: Opened) -> None:
    rows = [Row(step, 1.8e9 + step, {"loss": 3 / (1 + step / 1e4)}) for step in range(100_000)]
    with opened(job_page(the_inputs(history=History([Part(1, rows, 90_000)], [])))) as found:
        assert ink(found.page, LOSS) > 1000
