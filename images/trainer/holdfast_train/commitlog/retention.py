"""Which checkpoints are kept: the newest, one of each period, the best by a metric, and others. Without I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, InvalidOperation

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.records import Commit
from holdfast_train.format.names import CheckpointName


def retire(
    commits: Iterable[Commit], keep: Keep, left: Iterable[Commit] = (), replaced: CheckpointName | None = None
) -> tuple[int, ...]:
    """Numbers of the `commits` (oldest first), and of those that rollbacks have `left`, that retention drops.

    Pinned ones stay, and the newest healthy one. Those in quarantine do not count as kept, and neither does one that is
    `replaced`.
    """
    ordered = list(commits)
    good = [c for c in ordered if not c.corrupt and (c.pinned or c.name != replaced)]
    kept = {c.seq for c in good[-keep.last :]}
    if keep.every is not None:
        last: datetime | None = None
        for commit in good:
            at = datetime.fromisoformat(commit.at)
            if last is None or (at - last).total_seconds() >= keep.every:
                kept.add(commit.seq)
                last = at
    kept |= {c.seq for c in best_of(good, keep)}
    kept |= {c.seq for c in [c for c in good if c.healthy][-1:]}  # a rollback goes back to it
    # A checkpoint that is broken or left stays until `keep.last` newer intact ones exist: a person may examine it.
    oldest = good[-keep.last].seq if len(good) >= keep.last else 0
    gone = [c for c in ordered if (c.seq < oldest if c.corrupt else c.seq not in kept)]
    return tuple(c.seq for c in (*(c for c in left if c.seq < oldest), *gone) if not c.pinned)


def best_of(good: Iterable[Commit], keep: Keep) -> list[Commit]:
    """The best commits by the metric of `keep`, of equal ones the newer. A value that is not a number never counts."""
    rated = [(value, c) for c in good if c.metric_name == keep.metric and (value := _decimal(c.metric)) is not None]
    # copy_negate does not round; the minus operator does.
    rated.sort(key=lambda one: (one[0].copy_negate() if keep.mode == "Min" else one[0], one[1].seq), reverse=True)
    return [commit for _, commit in rated[: keep.best]]


def _decimal(text: str | None) -> Decimal | None:
    """The finite number in `text`, otherwise None: a loss of NaN is not a reason to keep a checkpoint."""
    try:
        value = Decimal(text or "")
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def with_metric(commit: Commit, metrics: Mapping[str, str], keep: Keep) -> Commit:
    """`commit` with the value in `metrics` that `keep` compares. Unchanged if there is no such value."""
    if not keep.best or keep.metric is None or _decimal(metrics.get(keep.metric)) is None:
        return commit
    return replace(commit, metric_name=keep.metric, metric=metrics[keep.metric])
