"""Progress and orders against an endpoint over TLS."""

import queue
import sys
import types
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.stores import environment

from holdfast_protocol.orders import Order
from holdfast_protocol.report import MAX_NOTE
from holdfast_train.pod.reporter import Reporter
from holdfast_train.progress import Progress


class Pod:
    def __init__(self, endpoint: Endpoint) -> None:
        self.progress = Progress()
        self.orders: queue.Queue[Order] = queue.Queue()
        self.reporter = Reporter(environment(None, 3, **endpoint.variables), self.progress, self.orders.put)


def is_step(number: int, report: dict[str, Any]) -> bool:
    return bool(report["step"] == number)


@pytest.fixture
def pod(endpoint: Endpoint) -> Iterator[Pod]:
    found = Pod(endpoint)
    found.reporter.start()
    yield found
    found.reporter.finish(0)


def test_first_report(pod: Pod, endpoint: Endpoint) -> None:
    report = endpoint.wait_for(lambda r: True)
    assert report["path"] == "/v1/namespaces/ns/jobs/job/progress"
    assert (report["attempt"], report["podUID"], report["state"], report["fenced"]) == (3, "pod-3", "starting", False)
    assert (report["step"], report["figures"], report["acknowledged"]) == (None, {}, 0)


def test_what_goes_wrong_with_saves_is_reported(pod: Pod, endpoint: Endpoint) -> None:
    pod.progress.save_error, pod.progress.memory_warning = "StorageDenied: no", "a save does not fit"
    pod.reporter.poke()
    told = endpoint.wait_for(lambda r: r["saveError"] is not None)
    assert (told["saveError"], told["memoryWarning"]) == ("StorageDenied: no", "a save does not fit")


def test_a_note_of_a_resume_is_cut_at_its_limit(pod: Pod, endpoint: Endpoint) -> None:
    """Breaks if a long error text in the note makes the operator refuse every report of the pod."""
    pod.progress.resume(7, "file:///saved", "x" * 5000)
    pod.reporter.poke()
    told = endpoint.wait_for(lambda r: r["resumedFrom"] is not None)
    assert told["resumedFrom"]["note"] == "x" * MAX_NOTE


def test_numbers_are_decimal_strings(pod: Pod, endpoint: Endpoint) -> None:
    endpoint.wait_for(lambda r: True)
    small, large = (1e-40, "1e-40"), (-1.25e35, "-1.25e+35")  # the operator refuses a longer number, with its report
    plain = [(2.5, "2.5"), (1e-7, "0.0000001"), small, large, (1e20, "1" + "0" * 20), (None, None)]
    wrong = [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")]
    for number, (loss, text) in enumerate([*plain, *wrong], 1):
        pod.progress.loss, pod.progress.step, pod.progress.samples = loss, number, 8.0 * number
        pod.reporter.poke()
        assert endpoint.wait_for(partial(is_step, number))["figures"].get("loss") == text
    last = endpoint.reports[-1]
    assert float(last["figures"]["secondsPerStep"]) > 0
    assert float(last["figures"]["samplesPerSecond"]) > 0


def test_metrics_are_decimal_strings(pod: Pod, endpoint: Endpoint) -> None:
    pod.progress.note({"loss": 1.0, "accuracy": 0.25, "norm": float("nan"), "none": None}, 8)
    pod.reporter.poke()
    assert endpoint.wait_for(lambda r: r["metrics"])["metrics"] == {"accuracy": "0.25", "norm": "nan"}


# Breaks if the address of the run is not told, or is lost to the operator once the program has finished the run.
def test_the_run_in_a_tracker_is_reported(pod: Pod, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    assert endpoint.wait_for(lambda r: True)["tracking"] == {}
    url = "https://wandb.ai/me/faces/runs/u-1"
    wandb = types.SimpleNamespace(run=types.SimpleNamespace(url=url, offline=False))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    pod.reporter.poke()
    assert endpoint.wait_for(lambda r: r["tracking"])["tracking"] == {"wandb": url}


# Breaks if the thread that reports takes no share, or a program without accelerator and loader tells one.
def test_memory_and_data_are_reported(pod: Pod, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    first = endpoint.wait_for(lambda r: True)
    assert first["figures"] == {}
    monkeypatch.setattr(pod.progress.data, "take", lambda: 1 / 3)
    pod.progress.ranks_peak = 5 << 30
    pod.reporter.poke()
    told = endpoint.wait_for(lambda r: "dataWait" in r["figures"])
    assert told["figures"] == {"dataWait": "0.333", "peakMemory": 5 << 30}


def test_order_comes_at_once_and_is_acknowledged(pod: Pod, endpoint: Endpoint) -> None:
    """Through the long poll: the next periodic report would be 15 s away."""
    endpoint.wait_for(lambda r: True)
    endpoint.order("drain", 9.5)
    assert pod.orders.get(timeout=5) == Order(1, "drain", 9.5, "a test")
    endpoint.wait_for(lambda r: r["acknowledged"] == 1, 5)
    endpoint.order("checkpoint")
    assert pod.orders.get(timeout=5).id == 2
    pod.reporter.poke()
    endpoint.wait_for(lambda r: r["acknowledged"] == 2, 5)
    assert pod.orders.empty()  # none twice, though both threads see them


def test_interval_is_the_operators(pod: Pod, endpoint: Endpoint) -> None:
    endpoint.every = 0.05
    pod.reporter.poke()
    pod.progress.step = 1
    endpoint.wait_for(lambda r: r["step"] == 1)
    seen = len(endpoint.reports)
    endpoint.wait_for(lambda r: len(endpoint.reports) > seen + 3)


def test_one_connection_and_a_fresh_token(pod: Pod, endpoint: Endpoint) -> None:
    """The kubelet renews the token in place; a TLS handshake for every report would cost both sides."""
    endpoint.wait_for(lambda r: True)
    endpoint.token.write_text("second\n")
    for step in range(1, 6):
        pod.progress.step = step
        pod.reporter.poke()
        endpoint.wait_for(partial(is_step, step))
    assert endpoint.tokens[0] == "Bearer first"
    assert endpoint.tokens[-1] == "Bearer second"
    assert endpoint.connections == 2  # reports, orders


def test_survives_a_restart_of_the_operator(
    pod: Pod, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("holdfast_train.pod.launcher.connection.FIRST_BACK_OFF", 0.05)
    endpoint.wait_for(lambda r: True)
    endpoint.status = 503
    seen = len(endpoint.tokens)
    pod.reporter.poke()
    endpoint_tries = endpoint._changed
    with endpoint_tries:
        assert endpoint_tries.wait_for(lambda: len(endpoint.tokens) >= seen + 3, 10)
    endpoint.status = 200
    pod.progress.step = 7
    endpoint.wait_for(lambda r: r["step"] == 7)
    pod.progress.step = 8
    pod.reporter.poke()
    endpoint.wait_for(lambda r: r["step"] == 8)
    assert capsys.readouterr().err.count("does not take reports (HTTP status 503)") == 1


def test_unreachable_from_the_start(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing listens, and the files are missing: the threads live on, and finish() returns in time."""
    folder = tmp_path_factory.mktemp("dead")
    endpoint = Endpoint(folder)
    endpoint.port = 9
    endpoint.token.unlink()
    pod = Pod(endpoint)
    pod.reporter.start()
    assert not pod.reporter.finish(0.2)


def test_wrong_authority_is_not_trusted(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Endpoint(tmp_path_factory.mktemp("other"))
    other.port = endpoint.port
    pod = Pod(other)
    pod.reporter.start()
    assert not pod.reporter.finish(0.5)
    assert endpoint.tokens == []  # the token was not sent


@pytest.mark.parametrize("orders", [None, 5, [{}], [{"id": "x"}], [None], [{"id": 1, "type": "drain"}]])
def test_orders_that_cannot_be_read_are_told_once(pod: Pod, orders: object, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        pod.reporter._take(orders)
    assert pod.orders.empty()
    assert capsys.readouterr().err.count("cannot be read") == 1


def test_farewell_arrives(endpoint: Endpoint) -> None:
    pod = Pod(endpoint)
    pod.reporter.start()
    pod.progress.state = "left"
    assert pod.reporter.finish(5)
    assert endpoint.reports[-1]["state"] == "left"


# Breaks if a thread that waits for orders of an attempt that is over stays for a minute: the process may go on.
def test_both_threads_end_after_the_last_report(endpoint: Endpoint) -> None:
    pod = Pod(endpoint)
    pod.reporter.start()
    endpoint.wait_for(lambda r: True)
    assert pod.reporter.finish(20)
    for thread in pod.reporter._threads:
        thread.join(20)
        assert not thread.is_alive()
