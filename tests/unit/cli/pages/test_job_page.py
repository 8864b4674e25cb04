"""The page of one job: what each section says, and what no page may do."""

from dataclasses import replace
from decimal import Decimal

import pytest
from tests.support.manifests.observed_jobs import RUNNING, running_job
from tests.support.pages.long_job import NOW, a_history, a_job, some_events, surveyed, the_inputs
from tests.support.pages.read_html import Read

from holdfast.api.job import Capacity
from holdfast.api.status import Forecast, Ledger, Phase
from holdfast_cli.pages.document import document
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.pages.job_page import job_page
from holdfast_cli.why.reasons import find_reasons
from holdfast_train.series.history import History, Part
from holdfast_train.series.rows import Row

SECTIONS = [
    "heading", "progress", "curves", "timeline", "why", "attempts", "hangs", "cost",
    "checkpoints", "conditions", "events",
]  # fmt: skip


def texts(inputs: JobInputs) -> dict[str, str]:
    """What each section says, as a reader sees it."""
    return {one.id: Read(one.html).text for one in job_page(inputs).fragments}


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    return texts(the_inputs(notes=["nodes were not read"]))


# Breaks if a section loses one of its figures.
@pytest.mark.parametrize(
    ("section", "wanted"),
    [
        ("heading", "vision/ vit-faces Running dedicated: spot is out; the deadline allows no wait The job trains."),
        ("heading", "created 12h03m ago · image registry.example/train:1 · s3://runs/vision/vit-faces · as of"),
        ("heading", "nodes were not read"),
        ("progress", "Step 38,700 of 60,000, 64.5% Time left 5h54m"),
        ("progress", "Loss 1.1873 8,192.4 samples/s Attempt 5 dedicated, ded-a100-1"),
        ("progress", "Interruptions 2 1,800 steps done twice"),
        ("progress", "Metrics eval/accuracy 0.8021"),
        ("progress", "Checkpoint step 38,500 4m00s ago Goodput 93.1%"),
        ("progress", "Spent 188.16 357.80 expected in the end Saved 131.40 (41%) against dedicated only Slack 9h10m"),
        ("timeline", "attempt 4 on spot, spot-a100-d09: waiting 15m00s"),
        ("why", "Deadline : dedicated: Spot is not known to be up, stay"),
        ("why", "What a tier is worth TIER KIND PRICE SPEED STEP INTERRUPTIONS LIFE HOUR OF WORK"),
        ("why", "● dedicated Dedicated 29.40 1.00 1.00s"),
        ("why", "Which tiers are up, and how soon training starts"),
        ("why", "deadline at risk no (InTime): the deadline is met even without Spot nodes"),
        ("why", "of 500 spent"),
        ("attempts", "4 spot spot-a100-d09 23,401–28,400 23,400 1,400 steps, 390.0s 1h28m Failure: ExitCode"),
        ("attempts", "2 interruptions (0 of them infrastructure), 1 of 3 allowed failures; 1,800 steps done twice, "
                     "1860.0s"),
        ("attempts", "attempt 4 2026-11-21"),
        ("attempts", "File train.py, line 214"),
        ("hangs", "Attempt 4 node 0, 2026-11-21T05:40:00+00:00: no step for 5m00s"),
        ("hangs", "it has entered 411 collectives of process group pg, and others 412"),
        ("hangs", "__next__ (data.py, line 88)"),
        ("hangs", "step 28400 loss 1.30"),
        ("cost", "188.16 spent, 357.80 expected in the end, 131.40 (41%) saved against dedicated only, goodput 93.1%"),
        ("cost", "spot 3 6.133 60.11 21,200 1,800 dedicated 1 2.216 65.17 7,600 0"),
        ("cost", "notice 2m10s acquire 19m05s start 4m40s restore 5m05s trained again 30m00s"),
        ("checkpoints", "s3://runs/vision/vit-faces owner vision/vit-faces now attempt 5 has the newest fence"),
        ("checkpoints", "37,500 5 3m00s 5.0 GiB damaged 000000037500-a5-00000028 4,000,000,000 of"),
        ("conditions", "DeadlineAtRisk False Enough 11h43m ago the job ends 9h before it"),
        ("events", "Saved saved step 38500 77"),
    ],
)  # fmt: skip
def test_it_says(said: dict[str, str], section: str, wanted: str) -> None:
    assert wanted in said[section]


# Breaks if a page says of a program that tells no steps that it has done none of them twice: `describe` does not.
def test_steps_done_twice_are_not_told_of_a_program_that_tells_no_steps() -> None:
    job = the_inputs().job
    assert job is not None
    ledger = job.status.ledger.model_copy(update={"steps_lost": 0, "by_tier": ()})
    silent = job.status.model_copy(update={"ledger": ledger, "fenced_program": None})
    text = texts(the_inputs(job=job.model_copy(update={"status": silent})))["progress"]
    assert "Interruptions 2" in text
    assert "done twice" not in text


def test_the_order_of_the_sections_and_the_places_of_the_charts(said: dict[str, str]) -> None:
    page = job_page(the_inputs())
    assert [one.id for one in page.fragments] == SECTIONS
    assert page.title == "vision/vit-faces"
    ids = Read(document(page, live=False)).ids
    assert len(set(ids)) == len(ids)
    assert {chart.id for chart in page.charts} < set(ids)
    assert [chart.title for chart in page.charts] == [
        "Loss", "Pace", "Step over time", "eval/accuracy", "Gradient norm", "Learning rate",
    ]  # fmt: skip


def test_the_newest_event_comes_first_and_the_oldest_are_left_out() -> None:
    many = [replace(some_events()[0], message=f"event {number}") for number in range(300)]
    text = texts(the_inputs(events=many))["events"]
    assert text.index("event 299") < text.index("event 298")
    assert "event 100" in text
    assert "event 99" not in text


# Breaks if what was not read looks like what does not exist.
@pytest.mark.parametrize("name", ["events", "history", "checkpoints", "evidence", "reasons"])
def test_what_was_not_read_leaves_its_section_empty(name: str) -> None:
    empty = {"history": "curves", "evidence": "hangs", "reasons": "why"}.get(name, name)
    assert texts(the_inputs(**{name: None}))[empty] == ""


def test_what_was_read_and_is_empty_is_said() -> None:
    found = texts(the_inputs(events=[], history=History([], []), checkpoints=(surveyed()[0], [])))
    assert "There are none" in found["events"]
    assert "no history of this training" in found["curves"]
    assert "There are no checkpoints." in found["checkpoints"]


def test_gaps_of_the_history_are_said_beside_what_is_drawn() -> None:
    history = replace(a_history(), gaps=["series/1-a1-x.jsonl.gz is damaged: it ends early"])
    inputs = the_inputs(history=history)
    assert "A part of the history is missing: series/1-a1-x.jsonl.gz is damaged" in texts(inputs)["curves"]
    assert job_page(inputs).charts


def test_a_job_of_which_only_the_storage_is_left() -> None:
    found = texts(the_inputs(job=None, events=None, reasons=None))
    assert "vision/ vit-faces The job is not in the cluster any more" in found["heading"]
    assert "Step 38,681" in found["progress"].replace("Steps", "Step")
    assert "Attempts 5 1,762 steps lost" in found["progress"]
    assert "Checkpoint step 38,500 of 3 that are kept" in found["progress"]
    assert "4 2026-11-21" in found["attempts"]
    assert "23,401–28,381 1,381" in found["attempts"]
    assert found["timeline"]
    assert found["hangs"]
    assert found["conditions"] == found["why"] == found["cost"] == found["events"] == ""


def test_a_storage_of_which_nothing_can_be_read_still_has_a_name() -> None:
    page = job_page(JobInputs(None, NOW, notes=["the history cannot be read: no route"], place="s3://runs/x"))
    assert page.title == "s3://runs/x"
    assert "the history cannot be read: no route" in page.fragments[0].html


@pytest.mark.parametrize("phase", [*Phase, None])
def test_every_phase_has_a_page(phase: Phase | None) -> None:
    job = running_job({"phase": phase, "current": None, "finishedAt": "2026-11-21T09:02:00Z"})
    found = texts(JobInputs(job, NOW, reasons=find_reasons(job, None, None, NOW)))
    assert str(phase or "New") in found["heading"]
    assert ("Took" in found["progress"]) == bool(phase and phase.final)


def test_a_job_without_a_status() -> None:
    job = a_job().model_copy(update={"status": type(a_job().status)()})
    found = texts(JobInputs(job, NOW))
    assert "The operator has not read the job yet" in found["heading"]
    assert found["attempts"] == found["cost"] == found["timeline"] == ""


def test_no_page_has_inline_styles_handlers_or_addresses_outside() -> None:
    for inputs in (the_inputs(), the_inputs(job=None), JobInputs(a_job(), NOW)):
        for live in (True, False):
            assert not Read(document(job_page(inputs), live=live)).breaches()


# Breaks if a report of a long training is too large to mail.
@pytest.mark.parametrize("names", [1, 4, 16])
def test_a_report_of_100_000_points_has_less_than_a_megabyte(names: int) -> None:
    values = [{f"metric-{n}": 1.23456 * (n + 1) + step / 7e5 for n in range(names)} for step in range(100_000 // names)]
    rows = [Row(step * 10, 1.8e9 + step * 3.21, one) for step, one in enumerate(values)]
    history = History([Part(1, rows[:60_000], 55_000), Part(2, rows[5_500:], rows[-1].step)], [])
    text = document(job_page(the_inputs(history=history)), live=False)
    assert len(text.encode()) < 1_000_000


def test_huge_numbers() -> None:
    huge = 2**53 - 1
    progress = {**RUNNING["progress"], "step": huge, "steps": huge, "loss": "1e308", "samplesPerSecond": "1e300"}
    job = running_job({"progress": progress, "attempt": 2**31 - 1})
    ledger = Ledger(spent=Decimal(10**11), saved_versus_dedicated="-1e30", goodput="1", steps_lost=huge)
    status = job.status.model_copy(update={"ledger": ledger, "forecast": Forecast(cost=Decimal(10**11))})
    capacity = Capacity.model_validate({"tiers": [{"name": "cpu", "kind": "CPU"}], "budget": "9" * 12})
    spec = job.spec.model_copy(update={"capacity": capacity})
    job = job.model_copy(update={"status": status, "spec": spec})
    rows = [Row(10**15 - 1, 1e11, {"loss": 1e308}), Row(10**15, 1e11 + 1, {"loss": -1e308})]
    found = texts(JobInputs(job, NOW, history=History([Part(1, rows, 10**15)], [])))
    assert "9,007,199,254,740,991 of 9,007,199,254,740,991, 100.0%" in found["progress"]
    assert "100,000,000,000.00" in found["progress"]
    assert texts(JobInputs(None, NOW, history=History([Part(1, rows, 10**15)], [])))["attempts"]


# Breaks if the run in a tracker cannot be opened from the page, or its server learns the address of the page, which may
# have a token.
def test_the_run_in_a_tracker_is_a_link() -> None:
    url = "https://wandb.ai/me/faces/runs/a&b"
    job = running_job({"tracking": [{"tracker": "wandb", "url": url}]})
    shown = Read(document(job_page(replace(the_inputs(), job=job)), live=False))
    assert f"wandb: {url}" in shown.text
    assert shown.links == [url]
    assert shown.breaches() == []
