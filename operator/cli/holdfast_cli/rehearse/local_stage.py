"""`LocalStage`: runs a program from its start to its end on this machine, undisturbed or interrupted."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from holdfast_cli.errors import CliError
from holdfast_cli.rehearse.commits import Commits, named, new_saves, saves_of
from holdfast_cli.rehearse.figures import printed, reported
from holdfast_cli.rehearse.left import Interruption, Left, Start
from holdfast_cli.rehearse.one_start import OneStart, end_all
from holdfast_cli.rehearse.outside import NotSaved, WorkingDirectory
from holdfast_cli.rehearse.place import JOB, Place
from holdfast_cli.rehearse.program import Program
from holdfast_cli.rehearse.ran import Planned, Ran, Tell
from holdfast_cli.rehearse.reports import Reports
from holdfast_cli.rehearse.save_watch import SaveWatch
from holdfast_cli.rehearse.saves_left import saves_in, step_left, torn_in
from holdfast_cli.rehearse.schedule import Due, Seen
from holdfast_protocol.verdict import WRITER_SECONDS, Outcome
from holdfast_train.folder.look import Rules, TooMuchError, look
from holdfast_train.pod.launcher.process_tree import adopt_orphans
from holdfast_train.pod.launcher.program import MARGIN_SECONDS
from holdfast_train.storage.folder import FolderStorage

PAUSE: Final = 0.05  # seconds between two looks at what the program does,
CLOSE_PAUSE: Final = 0.002  # and while a save is waited for
ELSEWHERE: Final = (Interruption.NOTICE, Interruption.LOST_NODE)  # the next start has an empty folder
COMPLETED: Final[Outcome] = "completed"


class LocalStage:
    """Runs the `program` in `place`, between `with` and its end. `tell` gets what it does, in a few words."""

    def __init__(self, program: Program, place: Place, reports: Reports, tell: Tell) -> None:
        adopt_orphans()  # so that no process of the program is missed when all of them are killed
        self.program, self.place, self.reports, self.tell = program, place, reports, tell
        self._has_named = False  # the program has saves that are known as such

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end_all()

    def undisturbed(self, name: str) -> Ran:
        """As Stage."""
        without = [path for path in (self.place.folder, self.place.root) if path is not None]
        directory = WorkingDirectory(Path.cwd(), without)
        ran = self._run(name, [])
        excluded: dict[str, str] = {}
        for folder in ran.left.folders:
            with suppress(OSError, TooMuchError):
                excluded |= look(folder, Rules(folder, self.program.exclude)).out
        ran.not_saved = NotSaved(excluded, *directory.written())
        return ran

    def interrupted(self, name: str, plan: Sequence[Planned]) -> Ran:
        """As Stage."""
        return self._run(name, plan)

    def _run(self, name: str, plan: Sequence[Planned]) -> Ran:
        ends_at = time.monotonic() + self.program.longest
        self.reports.begin()
        store = FolderStorage(self.place.store(name) / JOB)
        commits, starts, seen = Commits(store, has_named=self._has_named), list[Start](), list[Seen]()
        not_tried: dict[Interruption, str] = {}
        outputs, said = list[Path](), ""
        while True:
            planned = plan[len(starts)] if len(starts) < len(plan) else None
            one = _Started(self, name, len(starts) + 1, commits, ends_at)
            start = one.run(planned)
            starts.append(start)
            outputs.append(one.one.output)
            said = one.one.said()
            seen += one.seen
            not_tried |= one.not_tried
            if start.ended_by is None:
                break
            if start.ended_by in ELSEWHERE:
                self.place.empty()
        code = starts[-1].exit_code
        for left in plan[len(starts) - 1 :]:
            how = "came to its end" if code == 0 else f"ended with exit code {code}"
            not_tried.setdefault(left.kind, f"the program {how} before")
        all_made = commits.read()
        made = named(all_made)
        seen = [one for one, commit in zip(seen, new_saves(all_made), strict=False) if commit in made]
        self._has_named = self._has_named or any(one.save for one in made)
        folders = self.place.take_away(name)
        figures, starts, notes = printed(outputs, self.program.patterns, starts)
        if self.program.folder is None:  # what the launcher relays from other programs is a sample of their steps
            figures, notes = reported(store), ()
        has = Left(name, store, folders, figures, tuple(starts), saves_in(folders, made), saves_of(made), said=said)
        return Ran(
            replace(has, is_sampled=bool(notes)),
            seen,
            made,
            not_tried,
            notes=notes,
        )


class _Started:
    """One start of a run, until its end or its interruption."""

    def __init__(self, stage: LocalStage, run: str, number: int, commits: Commits, ends_at: float) -> None:
        self._program, self._reports, self._tell = stage.program, stage.reports, stage.tell
        self._commits = commits
        self._run, self._number, self._ends_at = run, number, ends_at
        self._job = stage.place.store(run) / JOB
        before = commits.read()
        self._has_resumed, self._resumed = bool(before), before[-1].step if before else None
        if stage.program.folder is not None and (left := step_left(stage.program.folder, stage.program.pattern)):
            self._has_resumed, self._resumed = True, max(left, self._resumed or 0)
        self.seen: list[Seen] = []
        self.not_tried: dict[Interruption, str] = {}
        self._torn = self._note = ""
        self._folder = stage.program.folder
        self.one = OneStart(stage.program, stage.place, stage.reports, run, number)

    def run(self, planned: Planned | None) -> Start:
        """Wait for the end, or interrupt the program as planned. None of its processes is left."""
        found = self._found(self._until_interrupted(planned))
        self.one.end()
        return found

    def _found(self, ended_by: Interruption | None) -> Start:
        seconds = time.monotonic() - self.one.started_at
        reported = self._reports.of(self._number)
        verdict = self.one.verdict
        code = self.one.code
        if verdict is not None and ended_by is None:
            code = verdict.exit_code if verdict.signal is None else -verdict.signal
            code = 0 if verdict.outcome == COMPLETED else code or self.one.code
        return Start(
            number=self._number,
            ended_by=ended_by,
            exit_code=code if ended_by is None else None,
            resumed=self._resumed,
            has_resumed=self._has_resumed,
            first=reported.first,
            last=reported.last,
            seconds=seconds,
            seconds_to_first=None if reported.first_at is None else reported.first_at - self.one.started_at,
            torn=self._torn,
            note=self._note,
        )

    def _until_interrupted(self, planned: Planned | None) -> Interruption | None:
        """What has interrupted the program; None if it ended by itself."""
        if not self._wait(lambda: planned is not None and self._is_due(planned.due)) or planned is None:
            return None
        ends_at = time.monotonic() + planned.due.pause
        if not self._wait(lambda: time.monotonic() >= ends_at):
            return None
        kind = planned.kind
        if kind is Interruption.CRASH_IN_SAVE:
            watch, ends_at = SaveWatch(self._watched()), time.monotonic() + planned.due.patience
            self._tell(f"{self._run}: start {self._number} waits for the next save, to kill the program in it")
            self.one.note_processes()
            if not self._wait(lambda: bool(watch.has_begun()) or time.monotonic() >= ends_at, CLOSE_PAUSE):
                return None
            self.one.freeze()
            if time.monotonic() >= ends_at:
                self.not_tried[kind] = f"no save began within {planned.due.patience:.0f} s"
                kind = Interruption.CRASH
        if kind is not Interruption.NOTICE:
            self.one.end()
            self._torn = torn_in(self._folder) if self._folder is not None else ""
            return kind
        self._tell(f"{self._run}: start {self._number} got the notice and leaves")
        saves = len(list(new_saves(self._commits.read())))
        self.one.give_notice()
        noticed_at = time.monotonic()
        self._wait(lambda: time.monotonic() >= noticed_at + self._program.grace + WRITER_SECONDS)
        verdict = self.one.verdict
        if verdict is not None and verdict.outcome == COMPLETED:
            return None
        if time.monotonic() - noticed_at >= self._program.grace - MARGIN_SECONDS:
            self._note = f"the program did not end within the grace of {self._program.grace:g} s, and was killed"
        elif len(list(new_saves(self._commits.read()))) == saves:
            self._note = "the program has saved nothing new after the notice"
        return kind

    def _watched(self) -> Path:
        """Where a save of the program begins. With `Run`, a small state is in the manifest alone."""
        data = self._job / "data"
        return self._folder or (data if data.is_dir() else self._job / "manifests")

    def _wait(self, condition: Callable[[], bool], pause: float = PAUSE) -> bool:
        """Wait until the condition is true; False if the program has ended before."""
        looked_at = 0.0
        while not self.one.has_ended():
            if time.monotonic() >= looked_at + PAUSE:
                self._look()
                looked_at = time.monotonic()
            if condition():
                return True
            if time.monotonic() >= self._ends_at:
                raise CliError(
                    f"the run took longer than {self._program.longest:.0f} s; its last lines:\n{self.one.said()}",
                    hint="let the program train fewer steps, or set --timeout",
                )
            time.sleep(pause)
        self._look()
        return False

    def _look(self) -> None:
        """Note new saves, and say how far the program is."""
        made = self._commits.read()
        known = len(self.seen)
        own = [one for one in new_saves(made) if one.attempt == self._number]
        for one in own[known:]:
            self.seen.append(Seen(time.monotonic() - self.one.started_at, one.step))
        reported = self._reports.of(self._number)
        step = "" if reported.last is None else f", step {reported.last}"
        goal = "" if reported.goal is None or reported.last is None else f" of {reported.goal}"
        self._tell(f"{self._run}: start {self._number}{step}{goal}, {len(list(new_saves(made)))} saves")

    def _is_due(self, due: Due) -> bool:
        if not self.seen:
            return False
        last = self._reports.of(self._number).last
        if due.step is not None and last is not None:
            return last >= due.step
        return len(list(new_saves(self._commits.read()))) >= due.saves
