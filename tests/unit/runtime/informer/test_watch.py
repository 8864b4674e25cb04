"""The clock of the watches; the watches themselves run against a real API server in tests/integration/runtime."""

from tests.support.operator.fake_api_server import Clock

from holdfast.runtime.apiserver.client import PAGE
from holdfast.runtime.informer.watch import RESOURCES, Frames, _settings


def test_silence_is_measured_from_the_start_and_from_the_last_frame_of_each_watch() -> None:
    clock, connected = Clock(), list[str]()
    frames = Frames(clock)
    frames.connected = connected.append
    assert frames.ages() == {}
    frames.start()
    clock.tick(10)
    frames.opened("pods")
    clock.tick(5)
    assert frames.ages() == {resource: 5.0 if resource == "pods" else 15.0 for resource in RESOURCES}
    frames.note("nodes")
    assert frames.ages()["nodes"] == 0.0
    assert connected == ["pods"]


def test_watches_begin_with_lists_in_pages() -> None:
    """Breaks if kopf reads 10,000 pods in one answer, beside a resync that reads them in pages."""
    assert _settings().watching.chunk_size == PAGE
