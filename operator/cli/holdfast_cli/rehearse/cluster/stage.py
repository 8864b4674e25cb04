"""`ClusterStage`: runs a job like the user's on one tier of a cluster, undisturbed or interrupted."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.api.attempt import AttemptState
from holdfast.api.objects import TrainingJob
from holdfast.api.scalars import parse_time
from holdfast_cli.errors import CliError
from holdfast_cli.rehearse.cluster.api import ClusterApi
from holdfast_cli.rehearse.cluster.manifests import OnTier, make_run
from holdfast_cli.rehearse.cluster.planning import BY_WRAPPER, attempts_of
from holdfast_cli.rehearse.cluster.script import wrapping
from holdfast_cli.rehearse.cluster.starts import starts_of
from holdfast_cli.rehearse.commits import Commits, Made, named, new_saves, saves_of
from holdfast_cli.rehearse.figures import reported
from holdfast_cli.rehearse.left import Interruption, Left
from holdfast_cli.rehearse.outside import NotSaved
from holdfast_cli.rehearse.ran import Planned, Ran, Tell
from holdfast_cli.rehearse.saves_left import saves_in
from holdfast_cli.rehearse.schedule import Due, Seen
from holdfast_cli.storage.address import explained
from holdfast_train.commitlog.checkpoints import find
from holdfast_train.commitlog.records import Commit
from holdfast_train.folder.index import read_index
from holdfast_train.folder.put_back import put_back
from holdfast_train.storage.retrying import RetryingStorage

LOOK_EVERY: Final = 0.5  # seconds
PATIENCE: Final = 5.0  # seconds that the storage may not answer while the program runs,
LAST_PATIENCE: Final = 60.0  # and in the end


class ClusterStage:
    """Runs the job `asked`. What its runs leave comes below `root`. `tell` gets what they do, in a few words."""

    def __init__(self, api: ClusterApi, asked: OnTier, root: Path, tell: Tell) -> None:
        self._api, self._asked, self._root, self._tell = api, asked, root, tell
        self._number = 0
        self._has_named = False  # the program has saves that are known as such
        self._seen: Sequence[Seen] = ()

    def undisturbed(self, name: str) -> Ran:
        """As Stage."""
        ran = self._run(name, ())
        ran.not_saved = NotSaved({}, unknown="the program ran in a pod")
        self._seen = ran.seen
        return ran

    def interrupted(self, name: str, plan: Sequence[Planned]) -> Ran:
        """As Stage."""
        return self._run(name, plan)

    def _run(self, name: str, plan: Sequence[Planned]) -> Ran:
        self._number += 1
        kills = attempts_of(plan, self._seen, has_folder=bool(self._asked.folder))
        manifest = make_run(self._asked, self._number, wrapping(self._asked.folder, kills) if kills else ())
        storage = self._api.storage(manifest)
        made = self._api.create(manifest)
        commits_of = Commits(storage, has_named=self._has_named)
        run = _Run(self._api, self._asked, name, plan, made=made, storage=storage, commits=commits_of, tell=self._tell)
        job = run.until_over()
        with explained(), storage.within(LAST_PATIENCE):
            newest = run.commits.newest()
            commits = named(run.commits.read())
            folders = self._folders(name, storage, newest)
            figures = reported(storage)
        self._has_named = self._has_named or any(one.save for one in commits)
        starts, not_tried = starts_of(job.status, commits, plan, run.interrupted)
        not_tried |= {plan[number - 1].kind: why for number, why in run.refused.items()}
        left = Left(
            name,
            storage,
            folders,
            figures,
            tuple(starts),
            saves=saves_in(folders, commits),
            written=saves_of(commits),
            is_sampled=bool(self._asked.folder),  # the launcher tells steps once a second
            said=_said(job),
        )
        if not self._asked.keep:
            self._api.remove({**made, "status": {"phase": job.status.phase}})
        return Ran(left, list(_seen(job, commits)), commits, not_tried)

    def _folders(self, name: str, storage: RetryingStorage, commit: Commit | None) -> tuple[Path, ...]:
        """The folder of each node, as the last commit has it."""
        if not self._asked.folder or commit is None:
            return ()
        self._tell(f"{name}: its last commit is downloaded")
        known = read_index(storage, find(storage, commit.name, commit.seq, commit.sha256))
        folders = [self._root / name / f"folder-{node}" for node in range(known.nodes)]
        for node, folder in enumerate(folders):
            folder.mkdir(parents=True)
            put_back(storage, known.view(node), folder)
        return tuple(folders)


class _Run:
    """One job, until it is over.

    `interrupted`: the attempts that were interrupted from here, and how; `refused`: those that were not, and why.
    """

    def __init__(
        self,
        api: ClusterApi,
        asked: OnTier,
        run: str,
        plan: Sequence[Planned],
        *,
        made: dict[str, Any],
        storage: RetryingStorage,
        commits: Commits,
        tell: Tell,
    ) -> None:
        self._api, self._asked, self._plan, self._tell = api, asked, plan, tell
        self._run, self._storage = run, storage
        self._name, self._uid = str(made["metadata"]["name"]), str(made["metadata"]["uid"])
        self.commits = commits
        self.interrupted: dict[int, Interruption] = {}
        self.refused: dict[int, str] = {}
        self._due_since: dict[int, float] = {}
        self._began = time.monotonic()
        self._has_node = False

    def until_over(self) -> TrainingJob:
        """Wait for the end, and interrupt as planned. The job as it was in the end. CliError if its time is over."""
        while True:
            job = self._api.job(self._name, self._uid)
            if job is not None:
                with self._storage.within(PATIENCE):
                    made = self.commits.read()
                if job.status.is_over:
                    return job
                self._say(job, made)
                self._check(job)
                self._interrupt(job, made)
            time.sleep(LOOK_EVERY)

    def _interrupt(self, job: TrainingJob, made: Sequence[Made]) -> None:
        """Interrupt the current attempt if it is due, and if the cluster has to do it."""
        current = job.status.current
        if current is None or current.state is not AttemptState.RUNNING or current.number > len(self._plan):
            return
        number, planned = current.number, self._plan[current.number - 1]
        if number in self.interrupted or number in self.refused or planned.kind in BY_WRAPPER:
            return
        if not _is_due(planned.due, number, current.last_step, made):
            return
        if time.monotonic() < self._due_since.setdefault(number, time.monotonic()) + planned.due.pause:
            return
        self._tell(f"{self._run}: start {number} gets {planned.kind}")
        try:
            if planned.kind is Interruption.NOTICE:
                self._api.move(self._name, self._asked.tier.name)
            else:
                self._api.lose(self._uid, number)
        except CliError as error:  # the job has just ended, or this user may not do it
            self.refused[number] = str(error)
        else:
            self.interrupted[number] = planned.kind

    def _check(self, job: TrainingJob) -> None:
        """Raise CliError if the job has no node in time, runs too long, or needs a correction."""
        status = job.status
        self._has_node = self._has_node or any(
            one is not None and one.scheduled_at is not None for one in (status.current, *status.history)
        )
        if status.misconfigured is not None:
            raise CliError(f"{self._name}: {status.misconfigured.reason}: {status.misconfigured.message}")
        waited, why = time.monotonic() - self._began, f": {status.decision.message}" if status.decision else ""
        if not self._has_node and waited >= self._asked.acquire.total_seconds():
            if status.phase is None:
                raise CliError(f"no operator has looked at {self._name} within {waited:.0f} s: is it running?")
            raise CliError(f"no node of tier {self._asked.tier.name} within {waited:.0f} s{why}")
        if waited >= (self._asked.acquire + self._asked.longest).total_seconds():
            raise CliError(
                f"{self._name} took longer than {waited:.0f} s{why}",
                hint="let the program train fewer steps, or set --timeout",
            )

    def _say(self, job: TrainingJob, made: Sequence[Made]) -> None:
        progress, phase = job.status.progress, job.status.phase or "new"
        step = f", step {progress.step}" if progress.step else ""
        goal = f" of {progress.steps}" if step and progress.steps else ""
        saves = len(list(new_saves(made)))
        self._tell(f"{self._run}: start {job.status.attempt}, {phase}{step}{goal}, {saves} saves")


def _is_due(due: Due, attempt: int, last: int | None, made: Sequence[Made]) -> bool:
    saves = list(new_saves(made))
    if not any(one.attempt == attempt for one in saves):
        return False
    if due.step is not None and last is not None:
        return last >= due.step
    return len(saves) >= due.saves


def _seen(job: TrainingJob, made: Sequence[Made]) -> Iterator[Seen]:
    """The saves with the seconds since the start of the attempt that made them."""
    began = {record.number: record.started_at for record in job.status.history}
    for one in new_saves(made):
        start = began.get(one.attempt)
        yield Seen(0.0 if start is None else max(0.0, (parse_time(one.at) - start).total_seconds()), one.step)


def _said(job: TrainingJob) -> str:
    """The last words of the program, as the status has them."""
    return next((record.message for record in reversed(job.status.history) if record.message), "")
