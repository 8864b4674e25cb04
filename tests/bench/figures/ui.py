"""`holdfast ui` with 1,000 jobs in a real browser: from the click until the page is painted, and until a change is."""

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from playwright.sync_api import Page
from tests.bench.goals import Measured
from tests.bench.stats import Sample
from tests.support.browser import chromium, find_chromium, tab
from tests.support.http.living_api_server import LivingApi, living_api
from tests.support.manifests.fleet import EVENTS, JOBS, PROFILES, fleet, profile
from tests.support.ui_process import running_ui

MANY = 1000
ROUNDS = 10
PATIENCE = 60_000  # milliseconds
# Two frames: in the callback of the first one the browser has not painted yet.
PAINTED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"


async def measure(quick: bool) -> list[Measured]:
    """Nothing is measured on a machine without a browser."""
    if find_chromium() is None:
        return []
    return await asyncio.to_thread(_measure, 3 if quick else ROUNDS)


def _measure(rounds: int) -> list[Measured]:
    with living_api() as api, tempfile.TemporaryDirectory() as folder, chromium() as browser:
        jobs = fleet(MANY, datetime.now(UTC))
        api.put(JOBS, *jobs)
        api.put(PROFILES, profile(datetime.now(UTC)))
        api.put(EVENTS)
        with running_ui(api.kubeconfig(Path(folder) / "config")) as process, tab(browser) as watched:
            page = watched.page
            page.set_default_timeout(PATIENCE)
            page.goto(process.address)
            _wait_for_rows(page)
            drawn = [_drawn(page) for _ in range(rounds)]
            changed = [_changed(page, api, job) for job in jobs[-rounds:]]
    first, change = Sample.of(drawn), Sample.of(changed)
    return [Measured("ui-drawn", first.p50, note=f"{first}"), Measured("ui-change", change.p50, note=f"{change}")]


def _wait_for_rows(page: Page) -> None:
    page.wait_for_function(f"document.querySelectorAll('tr[data-key]').length === {MANY}")


def _drawn(page: Page) -> float:
    """Seconds from the beginning of the navigation until all rows are painted."""
    page.reload(wait_until="load")
    _wait_for_rows(page)
    return float(page.evaluate(PAINTED)) / 1000


def _changed(page: Page, api: LivingApi, job: dict[str, Any]) -> float:
    """Seconds from a change in the API server until the page shows it."""
    job["status"]["progress"]["step"] = 900_001
    key, shown = f"{job['metadata']['namespace']}/{job['metadata']['name']}", "900,001"
    began = perf_counter()
    api.put(JOBS, job)
    page.wait_for_function(
        "([key, shown]) => document.querySelector(`tr[data-key='${key}']`).textContent.includes(shown)",
        arg=[key, shown], polling="raf",
    )  # fmt: skip
    return perf_counter() - began
