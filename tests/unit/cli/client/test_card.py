"""A job in a notebook: what is seen of it."""

from tests.support.manifests.observed_jobs import running_job
from tests.support.pages.long_job import NOW, a_history, a_job
from tests.support.pages.read_html import Read

from holdfast_cli.client.card import HIGH, WIDE, card
from holdfast_train.series.history import History, Part
from holdfast_train.series.rows import Row


def points(html: str) -> list[tuple[float, float]]:
    """Where the curve goes."""
    (found,) = [attributes["points"] or "" for tag, attributes in Read(html).elements if tag == "polyline"]
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in found.split())]


# Breaks if a figure of the job is missing, or the bar does not show how far it is.
def test_the_figures_of_a_job() -> None:
    shown = Read(card(running_job(), None, NOW, "no curve"))
    for words in ("demo/", "job", "Running", "dedicated, dedicated-1", "250 / 1,000", "25.0%", "12.35", "no curve"):
        assert words in shown.text, words
    assert [attributes["width"] for tag, attributes in shown.elements if tag == "rect" and "width" in attributes] == [
        "25.0%"
    ]
    assert "polyline" not in shown.tags


# Breaks if a job that is over does not say how it went, or has figures without a value.
def test_a_job_that_is_over() -> None:
    done = Read(card(running_job({"phase": "Completed", "restarts": {"interruptions": 1}}), None, NOW))
    assert "1 interruption" in done.text
    assert "ETA" not in done.text
    told = {
        "type": "Failed",
        "status": "True",
        "reason": "TooManyFailures",
        "message": "TooManyFailures: exit 7 (4 failures)",
    }
    told["lastTransitionTime"] = NOW.isoformat()
    status = {"phase": "Failed", "reason": "TooManyFailures", "conditions": [told]}
    shown = Read(card(running_job(status), None, NOW)).text
    assert shown.count("TooManyFailures: ") == 1
    assert "exit 7 (4 failures)" in shown


# Breaks if the run in a tracker cannot be opened, or its page learns of the notebook.
def test_the_run_in_a_tracker_is_a_link() -> None:
    url = "https://mlflow.example/#/experiments/0/runs/1&2"
    shown = Read(card(running_job({"tracking": [{"tracker": "mlflow", "url": url}]}), None, NOW))
    assert f"mlflow {url}" in shown.text
    assert shown.links == [url]
    assert Read(card(running_job(), None, NOW)).links == []


# Breaks if the curve leaves its picture, is upside down, or is as large as the history that it shows.
def test_the_curve_of_a_job() -> None:
    html = card(a_job(), a_history(), NOW)
    found = points(html)
    assert len(found) <= WIDE / 2
    assert all(0 <= x <= WIDE and 0 <= y <= HIGH for x, y in found)
    assert found[0][1] < found[-1][1]  # the loss has fallen
    assert len(html) < 10_000


# Breaks if a loss that does not change, or is not a number, has no card.
def test_losses_that_do_not_change() -> None:
    rows = [Row(1, 1.0, {"loss": 2.0}), Row(2, 2.0, {"loss": 2.0}), Row(3, 3.0, {"loss": float("nan")})]
    assert len({y for _, y in points(card(running_job(), History([Part(1, rows, 3)], []), NOW))}) == 1
