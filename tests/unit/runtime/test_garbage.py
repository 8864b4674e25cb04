"""The search for garbage cycles, made rare: it stops the event loop, and orders wait."""

import gc
import json
from collections.abc import Iterator

import pytest
from tests.support.operator.fake_api_server import raw_pod

from holdfast.runtime import command, garbage, logs, operator
from holdfast.runtime.settings import Settings


@pytest.fixture
def searches() -> Iterator[list[int]]:
    """The generation of each search that is made meanwhile; thresholds are put back at the end."""
    made: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            made.append(info["generation"])

    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # Python's own: another test of this process may have changed them
    gc.collect()
    gc.callbacks.append(note)
    yield made
    gc.callbacks.remove(note)
    gc.set_threshold(*before)


def page(pods: int) -> str:
    """A page of a list, as the API server writes it."""
    return json.dumps({"items": [raw_pod(f"p{n}", f"uid-{n}", n + 1, phase="Running") for n in range(pods)]})


def test_a_page_of_pods_starts_no_search(searches: list[int]) -> None:
    """Breaks if the thresholds stay as they are: then objects are searched while their text is still being decoded."""
    text = page(500)
    json.loads(text)
    assert searches, "with Python's own thresholds"
    searches.clear()
    garbage.search_rarely()
    json.loads(text)
    assert not searches


def test_cycles_are_freed_all_the_same(searches: list[int]) -> None:
    """Breaks if the search is turned off: a connection that is lost leaves cycles, and memory would grow for ever."""
    garbage.search_rarely()
    for _ in range(garbage.YOUNG + 1):
        cycle: list[object] = []
        cycle.append(cycle)
    assert searches


def test_the_operator_runs_with_rare_searches(searches: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if nobody sets the thresholds."""
    seen: list[int] = []

    async def run(_settings: Settings) -> int:
        seen.append(gc.get_threshold()[0])
        return 0

    monkeypatch.setattr(operator, "run", run)
    monkeypatch.setattr(logs, "configure", lambda _level: None)
    assert command.run(Settings()) == 0
    assert seen == [garbage.YOUNG]
