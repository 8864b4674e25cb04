"""Every page of the product with one word in all places that a tenant, a program or a file may have written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.support.manifests.fleet import profile
from tests.support.manifests.observed_jobs import running_job
from tests.support.pages.long_job import NOW, a_job, surveyed, the_inputs

from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import Tier
from holdfast.api.status import Phase
from holdfast_cli.client.card import card, failed
from holdfast_cli.cluster.job_api import Line
from holdfast_cli.pages.comparison import comparison_page
from holdfast_cli.pages.document import document
from holdfast_cli.pages.frame import Frame, actions, framed
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.pages.job_page import job_page
from holdfast_cli.pages.jobs_page import JobRow, Jobs, Query, filled, jobs_page
from holdfast_cli.pages.page import Page
from holdfast_cli.pages.tiers_page import Learned, Tiers, tiers_page
from holdfast_cli.plan.as_page import as_page as plan_page
from holdfast_cli.plan.comparison import Comparison as Plan
from holdfast_cli.plan.inputs import Fact
from holdfast_cli.simulate.plan import Lease, Way
from holdfast_cli.simulate.plan import Row as PlanRow
from holdfast_cli.why.reasons import find_reasons
from holdfast_model.census.as_page import NOTES
from holdfast_model.census.as_page import as_page as data_page
from holdfast_model.census.sample import Seen
from holdfast_model.census.summary import Boxes, Summary, Twins
from holdfast_model.evaluation.as_page import as_page as evaluation_page
from holdfast_model.evaluation.comparison import Comparison
from holdfast_model.evaluation.data import Batch
from holdfast_model.evaluation.measure import Candidate, Result
from holdfast_model.evaluation.scores import ClassScores
from holdfast_model.evaluation.task import Task
from holdfast_model.package.report_page import report_page
from holdfast_train.commitlog.records import Owner
from holdfast_train.series.history import History, Part
from holdfast_train.series.rows import Row


def job_inputs(word: str) -> JobInputs:
    """Of the page of a job."""
    raw: dict[str, Any] = a_job().to_object()

    def poisoned(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: poisoned(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [poisoned(one, key) for one in (value[:1] if key in ("conditions", "byTier") else value)]
        free = key in ("reason", "message", "node", "action", "loss", "samplesPerSecond", "type", "uri", "tier")
        return word if free and isinstance(value, str) else value

    job = a_job().parse({**raw, "status": {**poisoned(raw["status"]), "phase": "Running"}})
    trainer = job.spec.trainer.model_copy(update={"image": word})
    job = _named(job.model_copy(update={"spec": job.spec.model_copy(update={"trainer": trainer})}), word)
    prefix, rows = surveyed()
    prefix = replace(prefix, uri=word, state=replace(prefix.state, owner=Owner(1, word, word, word)))
    hang = the_inputs().evidence[0] | {"at": word, "why": word, "lastLines": [word]}  # type: ignore[index,operator]
    hang["ranks"] = [one | {"collectives": {word: {"number": 1, "done": 1}}, "stacks": word} for one in hang["ranks"]]
    row = Row(1, 2.0, {"loss": 1.0, word: 1.0})
    return JobInputs(
        job,
        NOW,
        [Line(word, NOW, warning=True, reason=word, message=word)],
        History([Part(1, [row, replace(row, step=2, at=3.0)], 2)], [word]),
        (prefix, [replace(one, note=word) for one in rows]),
        [hang],
        find_reasons(job, None, None, NOW),
        [word],
        word,
    )


def _named(job: TrainingJob, word: str) -> TrainingJob:
    meta = job.metadata.model_copy(update={"name": word, "namespace": word})
    return job.model_copy(update={"metadata": meta})


def _live(page: Page, word: str) -> str:
    """In its frame, with the actions of a job on several nodes."""
    job = running_job(trainer={"image": "x", "command": ["y"], "nodes": 4})
    asked = actions(_named(job, word), [Tier.model_construct(name=word)], [word])
    return document(framed(page, Frame("/jobs", word, word, word, asked)), live=True)


def _notebook(word: str) -> str:
    inputs = job_inputs(word)
    assert inputs.job is not None
    return card(inputs.job, inputs.history, NOW, word) + failed(word, word)


def _jobs(word: str) -> str:
    row = JobRow(
        namespace=word, name=word, phase=Phase.RUNNING, reason=word, tier=word, node=word, step=10, steps=100, eta=None,
        spent=Decimal(1), expected=None, slack=None, late=None, interruptions=0, created=NOW,
    )  # fmt: skip
    page, rows = jobs_page(Jobs([row], [(word, word)], total=2), Query(word, "name"))
    return _live(filled(page, rows), word)


def _tiers(word: str) -> str:
    fault = {"reason": word, "at": "2026-11-21T09:00:00Z", "namespace": "a", "job": "j", "attempt": 1}
    raw = profile(NOW)
    raw["status"] |= {"faultyNodes": [{"node": word, "faults": [fault]}]}
    found = CapacityProfile.parse(raw)
    tiers = [one.model_copy(update={"name": word}) for one in found.spec.tiers]
    found = found.model_copy(update={"spec": found.spec.model_copy(update={"tiers": tiers})})
    found = found.model_copy(update={"metadata": found.metadata.model_copy(update={"name": word})})
    known = [one.model_copy(update={"tier": word}) for one in found.status.tiers]
    found = found.model_copy(update={"status": found.status.model_copy(update={"tiers": known})})
    return _live(tiers_page(Tiers([found], {(word, word): Learned(word, word, NOW)}, word, 2, [word])), word)


def _plan(word: str) -> str:
    day = timedelta(days=1)
    row = PlanRow(Way("Deadline", word), day, 2, day, day, Decimal(1), Decimal(2), 1.0, 0.5, 0.5, {})
    lease = Lease(word, Decimal(100), 10.0, 0.5, 1, day, Decimal(100))
    facts = [Fact(word, word, word, word, assumed=True), Fact(word, word, word, word)]
    return document(plan_page([Plan(word, 10, 1, 2, [row], [lease], facts, [word], Decimal(1))]), live=False)


def _data(word: str) -> str:
    counts = {word: {word: 3, f"{word}2": 0}, f"{word}2": {f"{word}2": 1}}
    seen = Seen(dict.fromkeys(NOTES, 1), {kind: [word] for kind in NOTES})
    return data_page(Summary(word, word, counts, {word: 1}, Twins(1, 1, 1, [(word, [word])]), seen))


def _boxes(word: str) -> str:
    boxes = Boxes({word: 2}, {word: 1}, {word: {word: 1}}, 1, [word], [word])
    return data_page(Summary(word, word, {word: {word: 3}}, {}, Twins(1, 1, 1, [(word, [word])]), Seen(), boxes))


def _evaluation(word: str) -> str:
    task = Task("classes", {}, {}, word, 2, (word, f"{word}2"))
    package: Any = SimpleNamespace(variants={word: {"files": {word: {"bytes": 1000}}}})

    def result(name: str) -> Result:
        scores = ClassScores(task)
        scores.add(Batch({}, np.array([0, 1, 1]), [word] * 3), np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]]))
        return Result(Candidate(package, name, word), score=scores.accuracy, classes=scores)

    bad = Result(Candidate(package, word, word), why=word)
    left = [Candidate(package, word, word, word)]
    found = [result(word), result(f"{word}2"), bad]
    return evaluation_page(Comparison(word, word, 3, found, 0.1, {word: word}, left))


def _package(word: str) -> str:
    tested = {"passed": True, "largest": word, "agreement": word, "score": word}
    files = {word: {"bytes": 1000}}
    tensor = {"name": word, "dtype": word, "shape": [word, 3]}
    return report_page(
        {
            "name": word,
            "from": {
                "step": 1,
                "manifest": word,
                "jobUid": word,
                "revision": word,
                "metrics": {word: word},
                "sha256": word,
            },
            "made": {"at": word, "versions": {word: word}},
            "problem": {"inputs": [tensor], "outputs": [tensor], "dims": {word: [1, 2]}},
            "tests": {"cases": [{"dims": {word: 1}}], "leftOut": [word]},
            "score": {"name": word, "reference": word, "maxDrop": word},
            "variants": {word: {"files": files, "tested": tested, "note": word, "tolerance": word}},
        },
        {word: word},
    )


PAGES: Mapping[str, Callable[[str], str]] = {
    "job": lambda word: document(job_page(job_inputs(word)), live=False),
    "storage of a job": lambda word: document(job_page(replace(job_inputs(word), job=None)), live=False),
    "live job": lambda word: _live(job_page(job_inputs(word)), word),
    "comparison": lambda word: document(comparison_page(_two(word)), live=False),
    "notebook": _notebook,
    "jobs": _jobs,
    "tiers": _tiers,
    "plan": _plan,
    "data": _data,
    "boxes": _boxes,
    "evaluation": _evaluation,
    "package": _package,
}


def _two(word: str) -> Sequence[JobInputs]:
    return [job_inputs(word), job_inputs(word)]
