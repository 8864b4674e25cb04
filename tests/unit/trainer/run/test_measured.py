"""What a program reports: a wrong value is named at once, and not at the first save."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.stores import environment

from holdfast_train import Run
from holdfast_train.errors import StateError
from holdfast_train.examples.stub import Counter
from holdfast_train.progress import MAX_METRICS, Progress
from holdfast_train.run.measured import checked_goal, checked_number, checked_report, decimals, metric_name

GOOD = [1, 2.5, True, float("nan"), Decimal("1.5"), np.float32(2), np.array(3.0), torch.ones(()), torch.ones(1, 1)]
BAD = [
    (torch.ones(8), r"a tensor of torch.float32 with the shape \[8\]"),
    (torch.ones((), dtype=torch.complex64), "a tensor of torch.complex64"),
    (np.ones(3), "a ndarray"),
    ("warmup", "the text 'warmup'"),
    ("1.5", "the text '1.5'"),
    (None, "a NoneType"),
    ([1.0], "a list"),
    (1j, "a complex"),
    (10**400, "a int above"),
]


@pytest.mark.parametrize("value", GOOD)
def test_one_number(value: Any) -> None:
    assert decimals({"loss": checked_number("loss", value)}) == {"loss": repr(float(value))}


@pytest.mark.parametrize(("value", "what"), BAD)
def test_what_is_not_one_number_is_named(value: Any, what: str) -> None:
    with pytest.raises(StateError, match=f"the loss given to run.report is {what}.*; allowed: one number"):
        checked_number("loss", value)


# Breaks if a name that comes first after hours, with the first evaluation, ends the training.
@pytest.mark.parametrize(
    ("name", "shown"),
    [("", "_"), ("val loss", "val_loss"), ("<b>", "_b_"), ("x" * 65, "x" * 64), ("/x", "_/x"), (5, "5"), ("F₁", "F_")],
)
def test_a_name_that_is_not_safe_is_changed_and_said_once(
    name: Any, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    metric_name.cache_clear()
    for _ in range(2):
        assert checked_report(None, 0.0, {name: 1.0})[0] == {shown: 1.0}
    said = capsys.readouterr()
    assert (said.out + said.err).count(f"is shown as {shown}:") == 1


# Breaks if the newest value of a metric is forgotten at the next step, or if names are kept without end.
def test_progress_has_the_newest_value_of_each_metric() -> None:
    progress = Progress()
    progress.note({"loss": 1.0, "accuracy": 0.5}, 8)
    progress.note({"loss": 0.9}, 8)
    assert (progress.loss, progress.samples, dict(progress.metrics)) == (0.9, 16, {"accuracy": 0.5})
    progress.note({"accuracy": 0.6, **{f"m{n}": n for n in range(100)}}, 8)
    assert len(progress.metrics) == MAX_METRICS
    assert progress.metrics["accuracy"] == 0.6


def test_a_gradient_is_not_kept() -> None:
    assert not checked_number("loss", torch.ones((), requires_grad=True)).requires_grad


def test_numbers_that_are_not_finite_keep_their_names() -> None:
    found = decimals({name: float(name) for name in ("nan", "inf", "-inf")})
    assert found == {"nan": "nan", "inf": "inf", "-inf": "-inf"}


@pytest.mark.parametrize("goal", [12, 12.0, np.int64(12), torch.tensor(12)])
def test_whole_numbers_are_goals(goal: Any) -> None:
    assert (checked_goal(goal), type(checked_goal(goal))) == (12, int)
    assert checked_goal(None) is None


@pytest.mark.parametrize("goal", [12.5, "12", float("inf"), float("nan"), [12]])
def test_a_goal_that_is_not_a_whole_number_is_refused(goal: Any) -> None:
    with pytest.raises(StateError, match=r"the goal given to run\.steps is .*; allowed: a whole number of steps"):
        checked_goal(goal)


@pytest.mark.parametrize(
    "wrong", [{"loss": torch.ones(8)}, {"metrics": {"phase": "warmup"}}, {"samples": "many"}, {"loss": "high"}]
)
@pytest.mark.parametrize("in_a_pod", [True, False])
def test_a_wrong_report_is_refused_at_the_call(tmp_path: Any, wrong: dict[str, Any], in_a_pod: bool) -> None:
    """Breaks if it ends the training at the first save, hours later."""
    with pytest.raises((SystemExit, StateError)) as ended:
        where = environment(f"file://{tmp_path}/prefix") if in_a_pod else None
        with Run(counter=Counter(), environment=where) as run:
            for _ in run.steps(1):
                run.report(**wrong)
    error = ended.value.__cause__ if in_a_pod else ended.value
    assert isinstance(error, StateError)


def test_numbers_of_numpy_are_reported(endpoint: Endpoint) -> None:
    """Breaks if the thread that sends reports ends because a goal or a number of samples has no JSON."""
    with Run(counter=Counter(), environment=environment(None, **endpoint.variables)) as run:
        for step in run.steps(np.int64(3)):  # type: ignore[arg-type]
            run.report(loss=np.float32(0.5), samples=np.int64(4))  # type: ignore[arg-type]
            if step == 1:
                endpoint.wait_for(lambda r: r["steps"] == 3)
    assert (endpoint.reports[-1]["step"], endpoint.reports[-1]["figures"]["loss"]) == (3, "0.5")
