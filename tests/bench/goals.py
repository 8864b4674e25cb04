"""The goals: what is measured, what the best peer reached, and what Holdfast is to reach."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure as it was measured.

    `beside` is batch/v1 Job in the same run, `limit` a bound that was measured in the same run; in the goal's unit.
    `run`: when an earlier run measured it, and beside which load; empty in the run that measures it.
    """

    goal: str
    value: float
    beside: float | None = None
    limit: float | None = None
    note: str = ""
    run: str = ""


Check = Callable[[Measured], bool]


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the table.

    `peer` is the best peer's published figure and `peer_name` whose it is; `goal` says in words what `check` decides.
    `more` is true if more is better.
    """

    key: str
    title: str
    unit: str
    goal: str
    check: Check
    peer: float | None = None
    peer_name: str = ""
    more: bool = False
    digits: int = 3

    def ratio(self, measured: Measured) -> float | None:
        """How many times better than the Job in the same run, or else than the peer; None if there is neither."""
        other = measured.beside if measured.beside is not None else self.peer
        if not other or not measured.value:
            return None
        return measured.value / other if self.more else other / measured.value


def at_most(bound: float) -> Check:
    """The value must not be larger."""
    return lambda measured: measured.value <= bound


def _known_to_one(m: Measured) -> bool:
    """A figure that is lost in the noise has not reached its goal."""
    return m.value <= 1 and m.limit is not None and m.limit <= 1


def _no_more(m: Measured) -> bool:
    return m.beside is not None and m.value <= 1.01 * m.beside


def _fast_enough(m: Measured) -> bool:
    return (m.beside is not None and m.value > m.beside) or (m.limit is not None and m.value >= 0.9 * m.limit)


GOALS: tuple[Goal, ...] = (
    Goal("notice", "notice taint → drain order received, 40 clients, p99", "s", "≤ 0.250", at_most(0.250)),
    Goal(
        "strangers", "the same beside 1,000 jobs that report, 50 scrapers and 1,000 forged tokens a second, p99", "s",
        "≤ 0.250", at_most(0.250),
    ),
    Goal(
        "one", "old pod ended → replacement POSTed, one node, p50", "s", "≤ 0.015", at_most(0.015),
        0.015, "PyTorchJob, QPS 500",
    ),
    Goal(
        "forty-p50", "the same, 40 pods at once, p50", "s", "≤ 0.34", at_most(0.34), 0.34, "PyTorchJob, QPS 500",
    ),
    Goal(
        "forty-p99", "the same, 40 pods at once, p99", "s", "≤ 0.67", at_most(0.67), 0.67, "PyTorchJob, QPS 500",
    ),
    Goal("successor", "notice taint → successor POSTed, 40 of 1,000 jobs at once, p99", "s", "≤ 0.250", at_most(0.250)),
    Goal(
        "switch", "reclaim with notice: time without a step (beside it delete-and-recreate)", "s", "≥ 5 times less",
        lambda m: m.beside is not None and m.beside >= 5 * m.value, digits=2,
    ),
    Goal("switch-again", "the same: steps computed twice", "", "0", lambda m: m.value == 0, digits=0),
    Goal(
        "nth", "n-th interruption of one job, with progress between: slowest ÷ first", "×",
        "flat: ≤ 2, or each ≤ 0.050 s", lambda m: m.value <= 2 or (m.limit is not None and m.limit <= 0.050),
        8.5, "Job (9.4 s … 79.8 s)", digits=1,
    ),
    Goal("silent", "node NotReady → replacement POSTed, old writer fenced", "s", "≤ 1", at_most(1.0),
         digits=2),
    Goal(
        "silent-all", "last heartbeat → replacement POSTed (grace 40 s)", "s", "≤ grace + 3 s",
        lambda m: m.limit is not None and m.value <= m.limit + 3,
        81.0, "Job, two writers possible (244 s without)", digits=1,
    ),
    Goal(
        "create", "300 jobs at once: pods POSTed per second", "/s", "> Job in the same run, or ≥ 90% of a bare client",
        _fast_enough, 129.0, "Job at its best", more=True, digits=1,
    ),
    Goal("create-p50", "300 jobs at once: job → its pod, p50", "s", "≤ 0.61", at_most(0.61), 0.61, "Job at its best"),
    Goal("create-p99", "300 jobs at once: job → its pod, p99", "s", "≤ 1.1", at_most(1.1), 1.1, "Job at its best"),
    Goal("writes", "API writes a job until it runs, besides Events", "", "≤ 4", at_most(4.05), 4.0, "Job", digits=2),
    Goal(
        "several-create", "100 jobs of 8 nodes at once: pods POSTed per second", "/s", "≥ Job in the same run",
        lambda m: m.beside is not None and m.value >= m.beside, more=True, digits=1,
    ),
    Goal("several-create-p99", "the same: job → its last pod, p99", "s", "≤ Job in the same run",
         lambda m: m.beside is not None and m.value <= m.beside),
    Goal("several-writes", "the same: API writes a job until it runs, its 8 pods included", "", "≤ 4 + 8 pods",
         at_most(12.05), digits=2),
    Goal("several-lost-p50", "40 jobs of 8 nodes lose one node each at once: lost → replacement POSTed, p50", "s",
         "≤ 0.34", at_most(0.34), 0.34, "PyTorchJob, pods"),
    Goal("several-lost-p99", "the same, p99", "s", "≤ 0.67", at_most(0.67), 0.67, "PyTorchJob, pods"),
    Goal("meeting", "1,024 launchers meet: the last is ready → all have the order to start, p99", "s", "≤ 1",
         at_most(1.0)),
    Goal("scrape", "a scrape of the metrics of 10,000 jobs, all changed, p50", "s", "≤ 1", at_most(1.0)),
    Goal("scrape-lag", "the same: longest time that other work of the operator waits, p50", "ms", "≤ 50", at_most(50.0),
         digits=1),
    Goal("ui-drawn", "holdfast ui with 1,000 jobs: from the click until the page is painted, p50", "s", "≤ 1",
         at_most(1.0)),
    Goal("ui-change", "the same: from a change in the API server until the page shows it, p50", "s", "≤ 1",
         at_most(1.0)),
    Goal("several-decide", "a decision about a job of 1,024 nodes that lost one: processor time, p50", "ms", "≤ 20",
         at_most(20.0), digits=1),
    Goal("several-idle-writes", "1,000 jobs of 8 nodes, 8,000 launchers wait 60 s: writes besides the lease", "", "0",
         at_most(0), digits=0),
    Goal("several-idle-cpu", "the same: CPU of a core", "%", "≤ 50", at_most(50.0), digits=1),
    Goal("several-report-cpu", "the same, and all jobs report every 15 s: CPU of a core", "%", "≤ 50", at_most(50.0),
         digits=1),
    Goal("several-report-rss", "the same: resident memory", "MiB", "≤ 1,024", at_most(1024.0), digits=0),
    Goal("several-waiting-free", "2,000 jobs of 4 nodes wait for nodes, no autoscaler: CPU of a core", "%", "≤ 2",
         at_most(2.0), digits=2),
    Goal("several-waiting-billed", "the same, with an autoscaler that brings none", "%", "≤ 2", at_most(2.0), digits=2),
    Goal(
        "several-switch-lost", "one of 4 nodes lost without notice: time without a step (beside it all made again)",
        "s", "≥ 4 times less", lambda m: m.beside is not None and m.beside >= 4 * m.value, digits=2,
    ),
    Goal("several-switch-own", "the same, as a multiple of the start of one pod of this program alone", "×", "≤ 1.5",
         at_most(1.5), digits=2),
    Goal("several-switch-failed", "the program of one of 4 ranks dies: time without a step (beside it all made again)",
         "s", "≤ 2", at_most(2.0), digits=2),
    Goal(
        "several-switch-notice", "a notice for one of 4 nodes: time without a step (beside it all made again)", "s",
        "≥ 8 times less", lambda m: m.beside is not None and m.beside >= 8 * m.value, digits=2,
    ),
    Goal("several-switch-again", "the same: steps computed twice", "", "0", at_most(0), digits=0),
    Goal(
        "several-in-place", "one of 4 programs dies, the others keep their processes (beside it 4 that waited)", "s",
        "< that waited", lambda m: m.beside is not None and m.value < m.beside, digits=2,
    ),
    Goal("idle-writes", "1,000 jobs, idle 60 s: writes besides the lease", "", "0", at_most(0), digits=0),
    Goal("idle-cpu", "1,000 jobs, idle 60 s: CPU of a core", "%", "≤ 1", at_most(1.0), 0.05, "all, at 300 jobs",
         digits=2),
    Goal("idle-rss", "1,000 jobs, idle: resident memory", "MiB", "≤ 200", at_most(200), 70, "all, at 300 jobs",
         digits=0),
    Goal("report-cpu", "1,000 jobs reporting every 15 s: CPU of a core", "%", "≤ 10", at_most(10.0), digits=2),
    Goal("report-writes", "1,000 jobs reporting: writes a second", "/s", "≤ 10", at_most(10.5), digits=1),
    Goal("step", "holdfast_train: overhead of a step, mean", "ms", "≤ 0.1", at_most(0.1), digits=4),
    Goal("guard", "failure.nonFinite: what the guard for losses adds to a step", "%", "≤ 1", at_most(1.0), digits=2),
    Goal("folder", "checkpoint.folder: what it adds to a step of an unchanged Trainer", "%",
         "≤ 1, known to ± 1 or better", _known_to_one, digits=2),
    Goal(
        "folder-middle", "1 % of 2 GB in checkpoint.folder changed, in the middle of a file: bytes that a commit moves "
        "(beside it an upload of the changed files)", "%", "≤ 3", at_most(3.0), digits=2,
    ),
    Goal("folder-appended", "the same, 1 % appended to a file", "%", "≤ 3", at_most(3.0), digits=2),
    Goal("folder-ranges", "the same, 1 % in ranges of 1 MB all over a file", "%", "≤ 1.01 × the changed files",
         _no_more, digits=2),
    Goal("folder-pages", "the same, 1 % in pages of 4 KiB all over the files", "%", "≤ 1.01 × the changed files",
         _no_more, digits=2),
    Goal("folder-half-files", "put back of 2 GB onto a node that has half of the files ÷ onto an empty one", "×",
         "≤ 0.6", at_most(0.6), digits=2),
    Goal("folder-half-files-read", "the same: bytes read from the store", "×", "≤ 0.5", at_most(0.505)),
    Goal("folder-half-chunks", "put back of 2 GB onto a node that has half of each file ÷ onto an empty one", "×",
         "≤ 0.6", at_most(0.6), digits=2),
    Goal("folder-half-chunks-read", "the same: bytes read from the store", "×", "≤ 0.5", at_most(0.505)),
    Goal("folder-nodes", "commits of 4 parts of 256 MB at once, on one machine ÷ the commit of one part", "×", "≤ 1.3",
         at_most(1.3), digits=2),
    Goal(
        "folder-nodes-plain", "the same ÷ 4 plain uploads of the same bytes at once (beside it boto3, once)", "×",
        "≤ 1.3", at_most(1.3), digits=2,
    ),
    Goal("run-first-step", "`holdfast run` in a folder with one script → its first step, on a local cluster, p50", "s",
         "≤ 60", at_most(60.0), digits=1),
    Goal("run-changed", "5 MB of changed code: from the command until it is in the pod, at 100 MB/s", "s", "≤ 2",
         at_most(2.0), digits=2),
    Goal("run-again", "the same, unchanged: bytes uploaded", "", "0", at_most(0), digits=0),
    Goal("relay", "the relay of progress: what it adds to a step of an unchanged Trainer", "%", "≤ 1", at_most(1.0),
         digits=2),
)  # fmt: skip

BY_KEY = {goal.key: goal for goal in GOALS}
