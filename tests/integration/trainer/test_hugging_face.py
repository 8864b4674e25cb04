"""Hugging Face's Trainer, unmodified, under the real launcher, with the operator's real endpoint."""

import asyncio
import base64
import json
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from tests.support.trainer.pods import Pod
from tests.support.trainer.stores import LAUNCHER, REPOSITORY
from tests.support.waiting import wait_for

from holdfast.core.observe.report import Report
from holdfast.serve.auth import Authenticator, Identity
from holdfast.serve.members import MemberBook
from holdfast.serve.orders import OrderBoard
from holdfast.serve.progress_endpoint import ProgressServer, Standing
from holdfast.serve.reports import ReportBook

pytestmark = pytest.mark.training
PROGRAM = str(REPOSITORY / "tests/support/trainer/hugging_face.py")
CLAIMS = base64.urlsafe_b64encode(b'{"aud": ["holdfast"], "kubernetes.io": {"pod": {"uid": "p1"}}}').decode()


def now() -> datetime:
    return datetime.now(UTC)


async def review(token: str) -> Identity | None:
    return Identity("ns", "p1") if token.startswith("good.") else None


class Operator:
    """The operator's endpoint in a thread, without TLS. `reports` are all that it was told."""

    def __init__(self, folder: Path) -> None:
        self.book = ReportBook(lambda job, urgent: self.reports.append(self.book.of(["p1"])["p1"]), timedelta(0))
        self.reports: list[Report] = []
        self._server = ProgressServer(
            auth=Authenticator(review),
            book=self.book,
            board=OrderBoard(now),
            members=MemberBook(lambda job, urgent: None),
            membership=lambda namespace, job, pod, attempt: Standing.MEMBER,
            leading=lambda: True,
            now=now,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner = web.AppRunner(self._server.application())
        port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        token = folder / "token"
        token.write_text(f"good.{CLAIMS}.s")
        names = {"HOLDFAST_NAMESPACE": "ns", "HOLDFAST_JOB": "a", "HOLDFAST_POD_UID": "p1", "HOLDFAST_NODES": "1"}
        self.variables = {
            "operator_url": f"http://127.0.0.1:{port}",
            "token_file": str(token),
            **names,
        }

    async def _start(self) -> int:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port: int = self._runner.addresses[0][1]
        return port

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def of(self, attempt: int) -> list[Report]:
        return [report for report in self.reports if report.attempt == attempt]


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    operator = Operator(tmp_path)
    yield operator
    operator.stop()


def train(folder: Path, operator: Operator, attempt: int, *arguments: object, **more: str) -> Pod:
    command = [sys.executable, str(LAUNCHER), "--", sys.executable, PROGRAM, str(folder / "output")]
    variables = {**operator.variables, "HOLDFAST_ATTEMPT": str(attempt), **more}
    return Pod(folder, [*command, *map(str, arguments)], **variables)


# Breaks if the Trainer does not find the relay, if the relay or the route loses or refuses what it says, if the 100 %
# that it tells when it is asked to leave counts as an end, or if the first step after a resume is taken from its start.
@pytest.mark.thorough
def test_it_reports_and_resumes(tmp_path: Path, operator: Operator) -> None:
    first = train(tmp_path, operator, 1, 1000, 0.1)
    wait_for(lambda: any(report.step for report in operator.of(1)), 120, "a step")
    first.wait_for("'epoch': ")
    wait_for(lambda: any((tmp_path / "output").glob("checkpoint-*/trainer_state.json")), 60, "a checkpoint")
    first.kill_program()
    (reached,) = {report.step for report in operator.of(1)[-1:]}
    assert operator.of(1)[0].step is None
    last = operator.of(1)[-1]
    assert (last.state, last.steps, last.relayed) == ("training", 1000, True)
    assert last.figures.loss is not None
    assert 0 < float(last.figures.loss) < 100

    saved = max(int(path.name.split("-")[1]) for path in (tmp_path / "output").glob("checkpoint-*"))
    second = train(tmp_path, operator, 2, saved + 130, 0.1)
    assert second.end(120)["outcome"] == "completed"
    assert f"done at step {saved + 130}" in second.output
    found = [report for report in operator.of(2) if report.step is not None]
    assert found[0].first_step == found[0].step
    assert reached is not None
    assert (found[0].step or 0) > saved
    assert {report.steps for report in found} == {saved + 130}
    assert {report.state for report in operator.of(2)} == {"starting", "training"}
    assert any(float(report.figures.seconds_per_step or 0) >= 0.1 for report in found)
    assert all(report.checkpoint is None and not report.fenced for report in operator.reports)


# Breaks if the loss of 0 that the Trainer logs in place of nan is believed, or if the last status is lost at the end.
@pytest.mark.thorough
def test_a_loss_that_is_not_a_number(tmp_path: Path, operator: Operator) -> None:
    assert train(tmp_path, operator, 1, 3, 0, "nan").end(120)["outcome"] == "completed"
    assert operator.reports[-1].figures.loss == "nan"


# Breaks if the user cannot keep the relay away.
@pytest.mark.thorough
def test_the_user_may_switch_it_off(tmp_path: Path, operator: Operator) -> None:
    pod = train(tmp_path, operator, 1, 3, 0, DISABLE_KUBEFLOW_INTEGRATION="true")
    assert pod.end(120)["outcome"] == "completed"
    assert operator.reports == []
    assert json.dumps(pod.output).count("done at step 3") == 1
