"""What `holdfast watch` draws: as much as fits, and only that is parsed."""

import asyncio
import copy
import io
import re
from typing import Any, cast

import pytest
from rich.console import Console, RenderableType
from tests.support.manifests.observed_jobs import RUNNING, raw_job

from holdfast.api.objects import TrainingJob
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.cluster.job_api import event_line
from holdfast_cli.jobs import view
from holdfast_cli.jobs.watch import Lines, Pictures
from holdfast_cli.jobs.watched import AllJobs, OneJob, others_text, what_fits

NOBODY = cast(Client, None)  # pictures are drawn without a request
AWAY = ("no answer from the cluster for 12s: etcd", "")
NO_OPERATOR = "No operator has renewed its Lease since an hour"


def many(count: int, phase: str = "Running") -> list[dict[str, Any]]:
    one = raw_job()
    return [
        {
            **one,
            "metadata": {**one["metadata"], "name": f"{phase.lower()}-{number:05}", "uid": f"{phase}{number}"},
            "status": {**one["status"], "phase": phase},
        }
        for number in range(count)
    ]


def all_jobs(objects: list[dict[str, Any]]) -> AllJobs:
    watched = AllJobs(NOBODY, "demo")
    watched.lists[0]._objects = {raw["metadata"]["uid"]: raw for raw in objects}
    return watched


def lines(shown: RenderableType, width: int = 120) -> list[str]:
    out = Console(width=width, file=io.StringIO(), force_terminal=False)
    with out.capture() as captured:
        out.print(shown)
    return captured.get().splitlines()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the jobs that are parsed."""
    names: list[str] = []
    parse = TrainingJob.parse

    def counted(raw: dict[str, Any]) -> TrainingJob:
        names.append(raw["metadata"]["name"])
        return parse(raw)

    monkeypatch.setattr(TrainingJob, "parse", counted)
    return names


# Breaks if a picture costs more with more jobs than fit, or is higher than the screen.
def test_of_10000_jobs_only_those_that_fit_are_parsed_and_the_others_are_counted(parsed: list[str]) -> None:
    shown = lines(all_jobs(many(600, "Completed") + many(9400)).draw(24))
    assert len(shown) <= 24
    assert len(parsed) == 21
    assert shown[2].startswith("running-00000")
    assert shown[-1] == "and 9,979 more jobs: 9,379 Running, 600 Completed"


# Breaks if jobs that are over take the place of jobs that train, or the order depends on the phase where all jobs fit.
def test_jobs_that_are_over_are_left_out_first() -> None:
    over, running = many(3, "Completed"), many(3)
    names = [raw["metadata"]["name"] for raw in what_fits(over + running, 7)[0]]
    assert names == ["completed-00000", "running-00000", "running-00001", "running-00002"]
    assert what_fits(running + over, 9) == (over + running, [])
    assert what_fits(over + running, None) == (over + running, [])
    assert str(others_text(many(1, ""))) == "and 1 more job: 1 New"


# Breaks if each line of a pipe parses all jobs again.
def test_plain_lines_parse_only_jobs_that_changed(parsed: list[str]) -> None:
    jobs = many(50)
    watched = all_jobs(jobs)
    assert len(watched.news()) == 50
    changed = copy.deepcopy(jobs[7])
    changed["metadata"]["resourceVersion"] = "99"
    changed["status"]["progress"]["step"] = 251
    watched.lists[0]._objects["Running7"] = changed
    parsed.clear()
    (line,) = watched.news()
    assert "demo/running-00007" in line
    assert parsed == ["running-00007"]


# Breaks if a job with many attempts is higher than the screen: its newest lines would be cut off.
@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 24), (200, 50)])
def test_one_job_fits_on_the_screen_and_shows_the_newest(width: int, height: int) -> None:
    history = [{**RUNNING["history"][0], "number": number} for number in range(1, 15)]
    current = {**RUNNING["current"], "number": 15}
    job = TrainingJob.parse(raw_job(status={**RUNNING, "history": history, "current": current, "attempt": 15}))
    seen = {"lastTimestamp": "2026-11-21T09:02:00Z", "message": "a long message " * 20}
    events = [event_line({**seen, "reason": f"Reason{number}"}) for number in range(20)]
    shown = lines(view.job_screen(job, events, events[0].at, view.Losses(), height), width)
    assert len(shown) <= height
    assert max(map(len, shown)) <= width
    text = "\n".join(shown)
    assert "│ 15  dedicated" in text
    assert "Reason19" in text
    assert ("│  1  spot" in text) == (height == 50)


# Breaks if a cluster that does not answer takes the last picture away.
def test_the_last_picture_stays_while_the_cluster_does_not_answer() -> None:
    screen = io.StringIO()
    out = Console(file=screen, width=100, height=20, force_terminal=True, color_system=None)
    with Pictures(out) as pictures:
        pictures.update(all_jobs(many(40)), AWAY)
    shown = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip() for line in screen.getvalue().splitlines()]
    at = shown.index("no answer from the cluster for 12s: etcd")
    assert "running-00000" in shown[at + 3]
    end = next(number for number, line in enumerate(shown) if line.startswith("and 25 more jobs"))
    assert end - at < out.size.height - 1


# Breaks if a log of `watch` does not tell when the cluster or the operators were away.
def test_plain_lines_say_once_that_the_cluster_or_an_operator_is_away_and_back() -> None:
    out = Console(file=io.StringIO(), width=100)
    printed, watched = Lines(out), all_jobs([])
    with out.capture() as captured:
        for troubles in (("", ""), AWAY, AWAY, ("", NO_OPERATOR), ("", "")):
            printed.update(watched, troubles)
    assert [line.split(" ", 1)[1] for line in captured.get().splitlines()] == [
        "no answer from the cluster for 12s: etcd",
        "the cluster answers again",
        NO_OPERATOR,
        "an operator is at work again",
    ]


def test_one_job_that_is_gone_is_said() -> None:
    async def draw() -> None:
        with pytest.raises(Exception, match="was deleted"):
            OneJob(NOBODY, "demo", "job").draw(24)

    asyncio.run(draw())
