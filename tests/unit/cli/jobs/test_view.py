"""What a job looks like."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console, RenderableType
from tests.support.manifests.observed_jobs import RUNNING, running_job

from holdfast.api.status import Phase
from holdfast_cli.cluster.job_api import Line, Unreadable
from holdfast_cli.jobs import view
from holdfast_cli.terminal import formats

NOW = datetime(2026, 11, 21, 9, 3, tzinfo=UTC)
CAPACITY = {"tiers": [{"name": "dedicated", "kind": "Dedicated", "accelerator": "nvidia.com/gpu"}]}
EVENT = Line(
    "e1", NOW - timedelta(seconds=3), warning=True, reason="Notice", message="node spot-1\nis leaving", count=2
)


def text(shown: RenderableType, width: int = 120) -> str:
    console = Console(width=width, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        console.print(shown)
    return captured.get()


# Breaks if any of what the screen promises is not on it.
@pytest.mark.parametrize(
    "shown",
    ["Running", "dedicated-1", "250 / 1,000", "2.113", "25.0%", "ETA 2m00s", "step 240, 10s ago", "31.5 samples/s",
     "Interruption: SpotInterruption", "Failure: UserException", "0 steps, 6.5s", "Notice", "node spot-1 is leaving",
     "×2"],
)  # fmt: skip
def test_screen_of_one_job(shown: str) -> None:
    assert shown in text(view.job_screen(running_job(), [EVENT], NOW, view.Losses()))


def test_screen_fits_a_narrow_terminal() -> None:
    lines = text(view.job_screen(running_job(), [EVENT], NOW, view.Losses()), width=70).splitlines()
    assert max(len(line) for line in lines) <= 70


def test_screen_of_a_job_without_a_status() -> None:
    new = running_job().model_copy(update={"status": type(running_job().status)()})
    shown = text(view.job_screen(new, [], NOW, view.Losses()))
    assert "New" in shown
    assert "0 / 1,000" in shown
    assert "none yet" in shown


def test_a_checkpoint_without_a_step_is_shown_with_its_age() -> None:
    """Breaks if a job that saves all the time looks like one that saves nothing."""
    saved = {"uri": "s3://b/p", "bytes": 9, "committedAt": "2026-11-21T09:02:50Z"}
    unnamed = running_job({"checkpoint": saved})
    assert "one without a step, 10s ago" in text(view.job_screen(unnamed, [], NOW, view.Losses()))
    assert view.plain_state(unnamed).endswith(" checkpoint=2026-11-21T09:02:50Z")


# Breaks if a person who watches a job does not see that its saves wait, or reads the same outage twice.
def test_trouble_with_saves_is_on_the_screen() -> None:
    kinds = {"CheckpointFailing": "a save failed", "StorageUnreachable": "the storage is silent"}
    both = [
        {"type": kind, "status": "True", "reason": "x", "message": said, "lastTransitionTime": "2026-11-21T09:02:50Z"}
        for kind, said in kinds.items()
    ]
    seen = text(view.job_screen(running_job({"conditions": both}), [], NOW, view.Losses()))
    assert "the storage is silent" in seen
    assert "a save failed" not in seen
    assert "a save failed" in text(view.job_screen(running_job({"conditions": both[:1]}), [], NOW, view.Losses()))
    over = [{**one, "status": "False"} for one in both]
    assert "sil" not in text(view.job_screen(running_job({"conditions": over}), [], NOW, view.Losses()))


def test_only_the_newest_events_are_shown() -> None:
    events = [Line(str(i), NOW, warning=False, reason=f"Event{i:02}", message="") for i in range(20)]
    shown = text(view.job_screen(running_job(), events, NOW, view.Losses()))
    assert "Event19" in shown
    assert "Event11" not in shown


def test_a_completed_job_shows_all_steps_as_done() -> None:
    job = running_job({"phase": "Completed", "current": None})
    assert view.fraction(job) == 1.0
    assert view.eta(job, NOW) == "-"


def test_of_a_job_that_is_being_deleted_nothing_of_before_is_said() -> None:
    meta = running_job().metadata.model_copy(update={"deletion_timestamp": NOW})
    assert "being deleted" in view.what_next(running_job().model_copy(update={"metadata": meta}))


def test_of_a_completed_job_that_told_no_step_no_share_is_known() -> None:
    job = running_job({"phase": "Completed", "current": None, "progress": {}})
    assert view.fraction(job) is None


def test_without_a_goal_nothing_is_promised() -> None:
    job = running_job({"progress": {"step": 7}}, goal={})
    assert view.fraction(job) is None
    assert view.percent(job) == "-"
    assert view.steps(job) == "7"


def test_a_step_beyond_the_goal_is_not_more_than_everything() -> None:
    assert view.fraction(running_job({"progress": {"step": 5000}})) == 1.0


def test_table_of_all_jobs_shows_those_that_cannot_be_read() -> None:
    bad = Unreadable("demo", "broken", "spec.trainer: missing\nmore")
    shown = text(view.jobs_table([running_job()], [bad], NOW, namespaces=True), width=200)
    assert "NAMESPACE" in shown
    assert "Unreadable" in shown
    assert "spec.trainer: missing" in shown
    assert "more" not in shown
    assert "demo" not in text(view.jobs_table([running_job()], [], NOW, namespaces=False), width=200)


FORECAST = {"cost": "19.5", "slack": "7h12m"}


def screen_of(width: int, *jobs: Any, namespaces: bool = False) -> list[str]:
    return [line.rstrip() for line in text(view.jobs_table(jobs, [], NOW, namespaces=namespaces), width).splitlines()]


def test_the_table_at_80_columns() -> None:
    late = {"cost": "250", "slack": "0s", "late": "2h5m"}
    assert screen_of(80, running_job({"forecast": FORECAST}), running_job({"forecast": late})) == [
        "NAME  PHASE    TIER       STEP  PERCENT  ETA     COST  EXPECTED  SLACK",
        "──────────────────────────────────────────────────────────────────────────────",
        "job   Running  dedicated   250    25.0%  2m00s  12.35     19.50  7h12m",
        "job   Running  dedicated   250    25.0%  2m00s  12.35    250.00  late by 2h05m",
    ]


def test_the_table_at_120_columns() -> None:
    assert screen_of(120, running_job({"forecast": FORECAST, "reason": "NodeSilent"}), namespaces=True) == [
        "NAMESPACE  NAME  PHASE    TIER       STEP  PERCENT  ETA     COST  EXPECTED  SAVINGS  SLACK  "
        "INTERRUPTIONS  REASON",
        "─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────",
        "demo       job   Running  dedicated   250    25.0%  2m00s  12.35     19.50    24.69  7h12m  "
        "            1  NodeSilent",
    ]


def test_a_column_without_content_makes_room_for_others() -> None:
    """Breaks if a job without deadline loses its cost for a slack that there is not."""
    header = screen_of(72, running_job({"forecast": {"cost": "19.5"}}))[0]
    assert "SLACK" not in header
    assert header.split()[-2:] == ["EXPECTED", "SAVINGS"]


def test_a_deadline_that_will_be_missed_is_a_warning() -> None:
    late = running_job({"forecast": {"slack": "0s", "late": "2h5m"}})
    slack = view.slack_text(late.status.forecast)
    assert (slack.plain, str(slack.style)) == ("late by 2h05m", "bold red")
    assert "late by 2h05m" in text(view.job_screen(late, [], NOW, view.Losses()), width=80)


def test_the_screen_says_what_is_expected() -> None:
    job = running_job({"forecast": FORECAST}, capacity={**CAPACITY, "deadline": "2026-11-23T09:00:00Z"})
    shown = text(view.job_screen(job, [], NOW, view.Losses()))
    assert "12.35 spent, 19.50 expected in the end, 24.69 (67%) saved against dedicated only" in shown
    assert "7h12m" in shown


def test_markup_in_messages_is_text() -> None:
    job = running_job({"reason": "[bold]x[/nonsense]"})
    assert "[bold]x[/nonsense]" in text(view.jobs_table([job], [], NOW, namespaces=False), width=200)
    evil = Line("e", NOW, warning=False, reason="[red]", message="[/]")
    assert "[red]  [/]" in text(view.event_text(evil))


def test_losses_are_in_the_order_of_steps_and_a_step_counts_once() -> None:
    losses = view.Losses()
    for step, loss in ((10, "3.0"), (5, "4.0"), (10, "2.5"), (11, None), (12, "nan")):
        losses.see(step, loss)
    assert losses.values() == [4.0, 2.5]


def test_a_loss_that_is_not_finite_is_red() -> None:
    shown = {loss: view.loss_text(loss, "bold") for loss in ("nan", "inf", "-inf", "2.113", None)}
    assert [text.plain for text in shown.values()] == ["nan", "inf", "-inf", "2.113", formats.NOTHING]
    assert [text.style for text in shown.values()] == ["bold red", "bold red", "bold red", "bold", "bold"]


def test_plain_state_does_not_change_with_time_alone() -> None:
    before = view.plain_state(running_job())
    later = running_job({"checkpoint": None})
    assert before == "Running attempt=3 tier=dedicated node=dedicated-1 step=250/1,000 loss=2.113 checkpoint=240"
    assert view.plain_state(later) != before


def test_plain_state_names_the_attempt_that_trains() -> None:
    """Breaks if the number of a successor that starts beside it is shown."""
    successor = {**RUNNING["current"], "number": 4, "state": "Acquiring"}
    assert view.plain_state(running_job({"attempt": 4, "successor": successor})).startswith("Running attempt=3 ")


def test_every_phase_has_a_colour() -> None:
    assert all(view.phase_text(phase).plain == phase.value for phase in Phase)
