"""What retention keeps, and what it drops."""

from dataclasses import replace
from decimal import Decimal
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.records import Commit
from holdfast_train.commitlog.retention import retire, with_metric
from holdfast_train.format.names import CheckpointName

AT = "2026-01-01T00:00:00.000+00:00"


def commit(seq: int, step: int = 0, *, at: str = AT, corrupt: bool = False) -> Commit:
    return Commit(seq, step, 1, at, CheckpointName(step, 1, f"{seq:x}"), "00", 10, corrupt)


def hours(number: float) -> str:
    return f"2026-01-{1 + int(number // 24):02d}T{int(number % 24):02d}:00:00+00:00"


def test_retention_counts_good_ones_only() -> None:
    commits = [commit(1), commit(2), commit(3, corrupt=True), commit(4)]
    assert retire(commits, Keep(last=2)) == (1,)  # 3 does not count, and stays while it is newer than 2
    assert retire([*commits, commit(5)], Keep(last=2)) == (1, 2, 3)


def test_retention_by_period() -> None:
    commits = [commit(i + 1, at=hours(i * 6)) for i in range(10)]
    gone = retire(commits, Keep(last=2, every=24 * 3600))
    assert [c.seq for c in commits if c.seq not in gone] == [1, 5, 9, 10]


def rated(*values: str | None, name: str = "loss", corrupt: tuple[int, ...] = ()) -> list[Commit]:
    """Commits 1, 2, 3… with these values of a metric."""
    return [
        replace(commit(seq, corrupt=seq in corrupt), metric_name=None if value is None else name, metric=value)
        for seq, value in enumerate(values, 1)
    ]


@pytest.mark.parametrize(
    ("commits", "best", "mode", "kept"),
    [
        (rated("3", "1", "2", "4", "5"), 1, "Min", [2, 5]),
        (rated("3", "1", "2", "4", "5"), 2, "Min", [2, 3, 5]),
        (rated("3", "9", "2", "4", "5"), 1, "Max", [2, 5]),
        (rated("3", "1", "2", "4", "0.5"), 1, "Min", [5]),  # the newest may be the best as well
        (rated("1", "1", "1", "2"), 1, "Min", [3, 4]),  # of equals the newer
        (rated("-1e-3", "-0.01", "0", "1"), 1, "Min", [2, 4]),
        (
            rated("1.00000000000000000000000000000000001", "1.00000000000000000000000000000000002", "2"),
            1,
            "Min",
            [1, 3],
        ),
        (rated("3", "1", "2", "4", corrupt=(2,)), 1, "Min", [3, 4]),
        (rated("nan", "NaN", "-inf", "2", "x", "", None, "3"), 1, "Min", [4, 8]),
        (rated("nan", None, "3"), 5, "Min", [3]),
        (rated("1", "2", name="accuracy") + rated("", "", "5", "7")[2:], 1, "Min", [3, 4]),  # another metric's values
        (rated("1", "2", "3"), 0, "Min", [3]),
    ],
)
def test_retention_of_the_best(commits: list[Commit], best: int, mode: Literal["Min", "Max"], kept: list[int]) -> None:
    gone = retire(commits, Keep(last=1, best=best, metric="loss", mode=mode))
    assert [c.seq for c in commits if c.seq not in gone] == kept


def test_metric_of_a_commit() -> None:
    keep = Keep(best=1, metric="loss")
    found = with_metric(commit(1), {"loss": "2.113", "accuracy": "0.9"}, keep)
    assert found == replace(commit(1), metric_name="loss", metric="2.113")
    for metrics in ({}, {"accuracy": "0.9"}, {"loss": "nan"}, {"loss": "inf"}, {"loss": ""}, {"loss": "low"}):
        assert with_metric(commit(1), metrics, keep) == commit(1)
    assert with_metric(commit(1), {"loss": "2.113"}, Keep()) == commit(1)


values = st.none() | st.sampled_from(["nan", "inf", "x", "1e3"]) | st.decimals(-9, 9, places=1).map(str)
commits_strategy = st.lists(st.tuples(st.integers(0, 400), st.booleans(), values), max_size=30).map(
    lambda found: [
        replace(commit(number + 1, at=hours(hour), corrupt=bad), metric_name="loss", metric=value)
        for number, (hour, bad, value) in enumerate(sorted(found, key=lambda one: one[0]))
    ]
)
keeps = st.builds(
    Keep,
    last=st.integers(1, 5),
    every=st.none() | st.integers(1, 200).map(lambda h: h * 3600.0),
    best=st.integers(0, 4),
    metric=st.just("loss"),
    mode=st.sampled_from(["Min", "Max"]),
)


def worth(one: Commit, mode: str) -> Decimal | None:
    """The higher, the better; None for a metric that is not a number."""
    value = None if one.metric in (None, "nan", "inf", "x") else Decimal(one.metric)
    return value if value is None or mode == "Max" else -value


@given(commits_strategy, keeps)
def test_retention_invariants(commits: list[Commit], keep: Keep) -> None:
    """The newest good ones and the best ones always stay, no more than that, and a second time retires nothing."""
    gone = set(retire(commits, keep))
    good = [c for c in commits if not c.corrupt]
    newest = {c.seq for c in good[-keep.last :]}
    assert not gone & newest
    numbers = [(found, c) for c in good if (found := worth(c, keep.mode)) is not None]
    kept = sorted((found for found, c in numbers if c.seq not in gone), reverse=True)[: keep.best]
    assert kept == sorted((found for found, _ in numbers), reverse=True)[: keep.best]
    if keep.every is None:
        others = {c.seq for c in good} - gone - newest
        assert len(others) <= keep.best
    left = [c for c in commits if c.seq not in gone]
    assert retire(left, keep) == ()


@given(commits_strategy, keeps)
def test_what_is_kept_of_all_at_once_is_kept_one_by_one(commits: list[Commit], keep: Keep) -> None:
    """Commits come one at a time, each retiring some: the best of all that ever were must still be there."""
    left: list[Commit] = []
    for one in commits:
        left.append(one)
        gone = retire(left, keep)
        left = [c for c in left if c.seq not in gone]
    at_once = set(retire(commits, keep))
    best_only = replace(keep, last=1, every=None)
    wanted = {c.seq for c in commits if c.seq not in retire(commits, best_only) and not c.corrupt}
    assert wanted <= {c.seq for c in left}
    if keep.every is None:
        assert {c.seq for c in left if not c.corrupt} == {c.seq for c in commits if not c.corrupt} - at_once
