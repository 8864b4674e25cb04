"""`holdfast ui` as a user starts it, in a real browser: what is seen, live changes, keys, actions, hostile names.

HOLDFAST_SHOTS=docs/images makes the pictures of docs/how-to/ui.md again.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.support.browser import Watched, chromium, shots, tab
from tests.support.http.living_api_server import LivingApi, living_api
from tests.support.manifests.fleet import EVENTS, JOBS, PROFILES, fleet, hero, named, profile
from tests.support.manifests.observed_jobs import RUNNING, raw_job
from tests.support.ui_process import UiProcess, running_ui

FEW, MANY = 60, 1200
PATIENCE = 30_000  # milliseconds: tests run beside each other
expect.set_options(timeout=PATIENCE)
HOSTILE = '"><img src=x onerror="document.title=1"><script>document.title=2</script>'
NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def api() -> Iterator[LivingApi]:
    """Some jobs; the newest one runs, the oldest one has a hostile reason and tier."""
    bad = named(raw_job(status={**RUNNING, "reason": HOSTILE, "tier": HOSTILE}), "hostile", NOW - timedelta(days=98))
    with living_api() as server:
        server.put(JOBS, *fleet(FEW, NOW), bad, hero(NOW))
        server.put(PROFILES, profile(NOW))
        server.put(EVENTS)
        yield server


@pytest.fixture(scope="module")
def ui(api: LivingApi, tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[UiProcess]:
    with running_ui(api.kubeconfig(tmp_path_factory.mktemp("ui") / "config")) as process:
        yield process


@pytest.fixture
def seen(browser: Browser, ui: UiProcess) -> Iterator[Watched]:
    """A tab with the page of jobs. Each complaint of the browser fails the test."""
    with tab(browser) as watched:
        watched.page.goto(ui.address)
        expect(watched.page.locator("#live")).to_have_text("live")
        watched.page.locator('tr[data-key="demo/vit-faces"]').wait_for()
        yield watched
        assert watched.errors == []


def test_the_token_leaves_the_address_and_nothing_else_is_asked(seen: Watched) -> None:
    """Breaks if the secret stays in the address bar or history, or if a page asks another server for something."""
    assert "token" not in seen.page.url
    expect(seen.page.locator("tr[data-key]")).to_have_count(FEW + 2)
    expect(seen.page.locator("tr[data-key]").first).to_contain_text("vit-faces")
    assert seen.overflow() <= 0
    assert all(url.startswith(("http://127.0.0.1", "data:")) for url in seen.requests)


def test_a_change_is_seen_and_nothing_else_is_touched(seen: Watched, api: LivingApi) -> None:
    """Breaks if an update replaces more than what changed: selection, focus and scroll position are lost."""
    other = seen.page.locator('tr[data-key="demo/hostile"]')
    other.evaluate("row => row.dataset.mine = 'kept'")
    seen.page.get_by_role("link", name="vit-faces", exact=True).focus()
    job = api.get(JOBS, "vit-faces")
    job["status"]["progress"]["step"] = 421
    api.put(JOBS, job)
    expect(seen.page.locator('tr[data-key="demo/vit-faces"]')).to_contain_text("421")
    expect(other).to_have_attribute("data-mine", "kept")
    expect(seen.page.get_by_role("link", name="vit-faces", exact=True)).to_be_focused()


def test_filter_by_keyboard_and_order(seen: Watched) -> None:
    page = seen.page
    page.keyboard.press("/")
    expect(page.locator("#filter")).to_be_focused()
    page.keyboard.type("llm completed")
    expect(page.locator(".count")).to_contain_text("jobs match")
    expect(page.locator("tr[data-key] .state").first).to_have_text("Completed")
    expect(page.locator("#filter")).to_have_value("llm completed")
    expect(page.locator("#filter")).to_be_focused()
    page.locator("#sort-cost").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("Cost")
    assert page.url.endswith("/jobs?filter=llm+completed&sort=-cost")
    page.reload()
    expect(page.locator("#filter")).to_have_value("llm completed")
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("Cost")


def test_the_skip_link_comes_first_and_the_page_has_its_landmarks(seen: Watched) -> None:
    page = seen.page
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    expect(page.get_by_role("navigation")).to_be_visible()
    expect(page.get_by_role("search")).to_be_visible()
    expect(page.get_by_role("table", name="Training jobs")).to_be_visible()
    assert page.locator("[aria-live], [role=status], [role=alert]").count() == 1  # and it is silent:
    expect(page.locator("[role=status]")).to_have_text("")


def test_names_that_are_html_are_texts(seen: Watched) -> None:
    page = seen.page
    expect(page.locator('tr[data-key="demo/hostile"] td').nth(1)).to_have_text(HOSTILE)
    page.goto(page.url.replace("/jobs", "/jobs/demo/hostile"))
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    assert page.title() not in ("1", "2")
    assert page.locator("img").count() == 0


def test_an_action_asks_is_refused_in_words_and_done(seen: Watched, api: LivingApi) -> None:
    """Breaks if a click alone acts, if a refusal is not seen, or if the page forgets the dialog during an update."""
    page = seen.page
    page.get_by_role("link", name="vit-faces", exact=True).click()
    page.get_by_role("button", name="Move").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert "annotations" not in api.get(JOBS, "vit-faces")["metadata"]

    page.get_by_role("button", name="Move").click()
    dialog.get_by_label("To tier").select_option("cpu")
    job = api.get(JOBS, "vit-faces")
    job["status"]["progress"]["step"] = 555
    api.put(JOBS, job)
    expect(page.locator("#progress")).to_contain_text("555")
    api.refused["PATCH", JOBS] = (403, "Forbidden", 'User "me" cannot patch resource "trainingjobs"')
    dialog.get_by_role("button", name="Move").click()
    expect(dialog.get_by_role("alert")).to_contain_text('User "me" cannot patch')
    api.refused.clear()
    # the browser reports each answer of 400 and more; this one was wanted
    seen.errors = [error for error in seen.errors if "403" not in error]
    dialog.get_by_role("button", name="Move").click()
    expect(page.locator(".toast")).to_contain_text("asked to move")
    expect(page.locator("#said")).to_contain_text("asked to move")
    assert api.get(JOBS, "vit-faces")["metadata"]["annotations"]["holdfast.dev/move-requested"].endswith(" cpu")


def test_without_the_api_server_a_banner_says_so(seen: Watched, api: LivingApi) -> None:
    api.stop()
    expect(seen.page.locator("#banner")).to_contain_text("The pages show what was seen last")
    expect(seen.page.locator("tr[data-key]").first).to_be_visible()
    api.start()
    expect(seen.page.locator("#banner")).to_have_text("")


def hide(watched: Watched, *, hidden: bool) -> None:
    """Tell the page that it is seen or not: a browser without a screen shows all tabs."""
    watched.page.evaluate(
        """hidden => {
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_a_tab_that_is_not_seen_holds_no_connection_and_is_current_when_it_is_seen(
    seen: Watched, api: LivingApi
) -> None:
    """Breaks if each tab keeps a stream: browsers open six connections to one server, so the seventh tab hangs."""
    hide(seen, hidden=True)
    for _ in range(6):
        other = Watched(seen.page.context.new_page())
        other.page.goto(seen.page.url)
        expect(other.page.locator("#live")).to_have_text("live")
        hide(other, hidden=True)
    job = api.get(JOBS, "vit-faces")
    job["status"]["progress"]["step"] = 431
    api.put(JOBS, job)
    hide(seen, hidden=False)
    expect(seen.page.locator('tr[data-key="demo/vit-faces"]')).to_contain_text("431")


def test_a_stream_that_is_refused_says_why_and_comes_back(seen: Watched) -> None:
    """Breaks if a refusal looks like the end of the command."""
    refuses = "64 pages are open already: close some"
    seen.page.route("**/events?*", lambda route: route.fulfill(status=503, body=refuses))
    hide(seen, hidden=False)  # connects again
    expect(seen.page.locator("#live")).to_have_text("away")
    expect(seen.page.locator("#live")).to_have_attribute("title", f"holdfast ui answers 503: {refuses}")
    seen.page.unroute("**/events?*")
    expect(seen.page.locator("#live")).to_have_text("live")
    # the browser reports each answer of 400 and more; this one was wanted
    seen.errors = [error for error in seen.errors if "503" not in error]


def test_of_many_jobs_the_newest_thousand_are_drawn(seen: Watched, api: LivingApi) -> None:
    """Breaks if the table has all jobs of a large cluster, or if jobs that come are not put into their places."""
    more = [named(job, f"many-{number}", NOW - timedelta(days=99)) for number, job in enumerate(fleet(MANY, NOW))]
    api.put(JOBS, *more)
    expect(seen.page.locator(".count")).to_contain_text(f"{FEW + 2 + MANY - 1000} more are not")
    expect(seen.page.locator("tr[data-key]")).to_have_count(1000)
    expect(seen.page.locator("tr[data-key]").first).to_contain_text("vit-faces")
    for job in more:
        api.delete(JOBS, job["metadata"]["name"])
    expect(seen.page.locator("tr[data-key]")).to_have_count(FEW + 2)


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark(browser: Browser, ui: UiProcess, dark: bool) -> None:
    """Breaks if a page has the colours of the other mode, or is wider than the window of a phone."""
    folder = shots()
    with tab(browser, width=1320, height=700, dark=dark) as watched:
        page = watched.page
        page.goto(ui.address)
        page.locator("tr[data-key]").first.wait_for()
        red = page.evaluate("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
        assert (red < 64) is dark
        for name, path in (("jobs", "/jobs"), ("job", "/jobs/demo/vit-faces"), ("tiers", "/tiers")):
            page.goto(page.url.partition("/jobs")[0].partition("/tiers")[0] + path)
            expect(page.locator("#live")).to_have_text("live")
            page.locator("h1").wait_for()
            if name == "job":
                page.get_by_role("button", name="Move").click()
            if folder and dark is (name == "tiers"):
                page.screenshot(path=folder / f"ui-{name}.png")
        page.set_viewport_size({"width": 390, "height": 760})
        assert watched.overflow() <= 0
        assert watched.errors == []


def test_ctrl_c_ends_at_once_while_pages_are_open(api: LivingApi, browser: Browser, tmp_path: Path) -> None:
    """Breaks if an open stream, or a watch, keeps the process."""
    with running_ui(api.kubeconfig(tmp_path / "config")) as process, tab(browser) as watched:
        watched.page.goto(process.address)
        expect(watched.page.locator("#live")).to_have_text("live")
        assert process.interrupt() == 0
        assert "Traceback" not in "\n".join(process.lines)
        expect(watched.page.locator("#live")).to_have_text("away")
