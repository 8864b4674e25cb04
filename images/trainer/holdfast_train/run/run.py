"""`Run`: what a training loop uses. It restores, reports and saves, and it leaves on a notice."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from threading import get_ident
from types import TracebackType
from typing import Any, Self

from holdfast_protocol.orders import CHECKPOINT, DRAIN, GO, Order
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.data import rng
from holdfast_train.data_wait import DATA_WAIT, T
from holdfast_train.environment import Environment
from holdfast_train.errors import AlreadyCompleteError, HoldfastTrainError, StateError
from holdfast_train.format.program import ENDED, Program, Severity, check_rules, describe, of_code
from holdfast_train.format.stateful import Stateful, checked, has_position
from holdfast_train.pod.imported_modules import tell_modules
from holdfast_train.pod.rank_verdict import begin_rank
from holdfast_train.pod.reporter import Reporter
from holdfast_train.progress import Progress, Silence
from holdfast_train.ranks import Ranks
from holdfast_train.restore.candidates import Candidates, completed, start
from holdfast_train.restore.into_objects import put_back, restore
from holdfast_train.restore.memory_checkpoints import MemoryCheckpoints
from holdfast_train.restore.restored import Restored
from holdfast_train.run.ending import Ending
from holdfast_train.run.fence_wait import FenceWait
from holdfast_train.run.finite import FiniteGuard
from holdfast_train.run.measured import Measurements, checked_goal, checked_report, decimals
from holdfast_train.run.notice import Notice
from holdfast_train.run.one_run import OneRun
from holdfast_train.run.rollback import Faults, skip
from holdfast_train.run.slow_ranks import SlowRanks
from holdfast_train.run.step_agreement import StepAgreement
from holdfast_train.run.step_boundary import StepBoundary
from holdfast_train.run.step_loops import StepLoops
from holdfast_train.save.coordinator import SaveCoordinator
from holdfast_train.save.messages import Open
from holdfast_train.save.schedule import SaveSchedule
from holdfast_train.save.training_state import TrainingState
from holdfast_train.say import say
from holdfast_train.storage.opening import open_retrying
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.timings import USUAL


class Run:
    """One training. Its keyword arguments go into checkpoints: any objects with state_dict and load_state_dict.

        with holdfast_train.Run(model=model, optimizer=optimizer, data=data) as run:  # resumes here
            for step in run.steps(goal):
                run.report(loss=train_step(data.batch(step)), samples=32)

    Under torchrun, make the process group first. Each rank saves its share; objects that differ between ranks go into
    `per_rank`. Random number generators are always part of a checkpoint. Outside a Holdfast pod nothing is saved or
    reported, and the loop runs as it would without Holdfast. `config` (a mapping, a dataclass, a Namespace) and `rules`
    say what a resume should find unchanged: see `holdfast_train.format.program`.
    """

    def __init__(
        self,
        *,
        per_rank: Mapping[str, Stateful] | None = None,
        config: Any = None,
        rules: Mapping[str, Severity] | None = None,
        environment: Environment | None = None,
        **objects: Stateful,
    ) -> None:
        self._objects = {name: checked(name, thing) for name, thing in objects.items()}
        self._per_rank = {name: checked(name, thing) for name, thing in (per_rank or {}).items()}
        self._config = config
        self._rules = rules or {}
        check_rules(self._rules)
        self._guard = FiniteGuard()
        self._faults: Faults | None = None
        self._slow = SlowRanks()
        self._boundary = StepBoundary((*self._objects.values(), *self._per_rank.values()), self._slow.begin_step)
        self._loops = StepLoops(self._boundary, self._count)
        self._step = 0
        self._resumed_from: int | None = None
        self._environment = environment
        self._timings = USUAL if environment is None else environment.timings
        self._goal: int | None = None
        self._progress = Progress()
        self._measured = Measurements(self._progress)
        self._reporter: Reporter | None = None
        self._ranks = Ranks(connect=False)
        self._agreement = StepAgreement()
        self._fence_wait = FenceWait(self._timings)  # here: an order may end the wait before it begins
        self._notice = Notice(0.0)
        self._storage: RetryingStorage | None = None
        self._checkpoints: Checkpoints | None = None
        self._saving = SaveSchedule(self._progress, timings=self._timings)
        self._checkpointer: SaveCoordinator | None = None
        self._complete: int | None = None  # the step at which an earlier attempt has completed the training
        self._has_ended = False  # by the program's decision: see `finish`
        self._has_shown_left = False  # `advance` has returned after a notice, and the program could ask `should_stop`
        self._one_run = OneRun(None)
        self._ending = self._make_ending()

    def __enter__(self) -> Self:
        self._loops.enter()
        DATA_WAIT.run_thread = get_ident()
        try:
            self._environment = self._environment or Environment.read()
            if self._environment is not None:
                self._ending = self._make_ending()  # here: an error of the start has a verdict too
                self._one_run = OneRun(self._environment)
                self._one_run.begin()
                self._start(self._environment)
                if self._ranks.size > 1 and not self.left:
                    self._agreement.start(self._step, agreed=self._ranks.share(self._save_is_due(ahead=1)))
            if self._complete is None:
                self._boundary.watch({**self._objects, **self._per_rank})
        except HoldfastTrainError as error:
            self._one_run.end(None)
            self._ending.exit_with(error, self._step)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loops.is_forked:
            return
        DATA_WAIT.run_thread = None
        found = self._loops.end()
        if found is None and self._resumed_from is None and not self.left:
            found = self._boundary.work.error_of_end()
        error = found if error is None else error
        if self._environment is None:
            self._boundary.close()
            if kind is None and found is not None:
                raise found
            return
        try:
            if error is None and self.has_stepped:  # a loop of another shape has ended in a step
                self._count()
            self._ending.end(error, self._step, asked=self._boundary.is_put_off)
            if error is None:
                self._agreement.close()
        finally:
            is_complete = self._progress.state == "completed"
            self._one_run.end("has left" if self.left else "has completed its training" if is_complete else None)
            self._boundary.close()
            self._notice.stop_listening()
            self._slow.close()
            if self._checkpointer is not None:
                self._checkpointer.close(is_complete=is_complete)

    # What the loop calls.

    @property
    def step(self) -> int:
        """How many steps are done."""
        self._loops.note_place_asked()
        return self._step

    @step.setter
    def step(self, step: int) -> None:
        self._step = step

    @property
    def resumed_from(self) -> int | None:
        """The step of the checkpoint, None if training began at step 0."""
        self._loops.note_place_asked()
        return self._resumed_from

    @property
    def left(self) -> bool:
        """True if a notice came, and the loop has ended (or must not begin) because of it."""
        return self._ending.left

    @left.setter
    def left(self, left: bool) -> None:
        self._ending.left = left

    def steps(self, goal: int | None = None) -> Iterator[int]:
        """The numbers of the steps still to do, up to `goal` (None: HOLDFAST_GOAL_STEPS; endless if that is not set).

        The first number is the one after the checkpoint's. Ends early, with `left` set, when the pod has to leave. A
        loop over epochs around it asks `should_stop` before each of them; otherwise the second one is a StateError,
        unless its goal is larger. What shapes a loop may have: docs/reference/run.md.
        """
        goal = checked_goal(goal)
        if goal is None and self._environment is not None:
            goal = self._environment.goal_steps
        return self._loop(goal)

    def _loop(self, goal: int | None) -> Iterator[int]:
        """The loop of `steps`. It begins where the program asks for its first step."""
        self._loops.check_reader()
        self._loops.leave()
        if self._loops.take_known_left():
            self._act()
        is_over = self.left or self._complete is not None or self._has_ended
        loop = 0 if is_over else self._loops.begin(goal)
        self._goal = self._progress.steps = goal
        # A notice may have come during the restore: then no step begins. Later ones are agreed on in the loop.
        is_first = self._environment is not None and loop == 1 and not self._must_stop
        if is_first and self._ranks.any(self._notice.is_given)[0]:
            self._ending.leave(self._step)
        while not self._must_stop:
            self._loops.begin_step(loop)
            self._boundary.begin_body()
            try:
                yield self._step
            except GeneratorExit:  # the program has left the loop
                self._loops.leave(loop)
                raise
            self._loops.begin_step(loop)
            self._count()
            self._act()

    @property
    def should_stop(self) -> bool:
        """True if the loop has to end: at the goal or after `finish`, if training was complete before, or to leave."""
        must_stop = self._must_stop
        self._loops.note_asked(should_stop=must_stop)
        if must_stop or (self._environment is not None and self._environment.goal_steps is not None):
            self._loops.note_place_asked()
        return must_stop

    @property
    def _must_stop(self) -> bool:
        return self.left or self._complete is not None or self._is_at_end

    @property
    def _is_at_end(self) -> bool:
        return self._has_ended or (self._goal is not None and self._step >= self._goal)

    def finish(self) -> None:
        """End the training after the step that runs, or here between two steps, because the program has decided so.

        A notice does not change it any more, as at the goal: the block saves and completes the training. A `break` out
        of a loop over `steps` needs no call. Under torchrun every rank must call it.
        """
        self._has_ended = True

    @property
    def has_stepped(self) -> bool:
        """True if an optimizer has stepped, and the step is not counted yet."""
        return self._boundary.has_stepped

    def note_step(self) -> None:
        """The step of an optimizer is over, also if it has left the parameters as they are, as a loss scale makes it.

        Only for optimizers that do not tell it: a save waits for a step if gradients have come.
        """
        self._boundary.note_step()

    def report(self, loss: Any = None, samples: float = 0.0, metrics: Mapping[str, Any] | None = None) -> None:
        """Note the loss of this step and its number of samples. Cheap: a tensor is read later, in another thread.

        `loss` and each of `metrics` is a number, or a tensor with one element; anything else is a StateError.
        `checkpoint.keep.best` uses one metric, or `loss`.
        """
        measured, samples = checked_report(loss, samples, metrics or {})
        self._boundary.note_report(has_loss=loss is not None)
        if self._environment is not None:
            self._measured.note(measured, samples)

    def waiting(self, data: Iterable[T]) -> Iterable[T]:
        """`data`, a loader of any kind: the operator learns which share of each step is spent waiting for it."""
        return DATA_WAIT.over(data)

    def advance(self, loss: Any = None, samples: float = 0.0) -> None:
        """Count one step as done. `steps` calls it; a loop without `steps` calls it and checks `should_stop`, which is
        true at `goal.steps` of the job too.

        Ask `step` before the first call: in an attempt that resumes, a loop over epochs would begin at its first one.
        Begins a save if one is due. FencedError if a newer attempt has started, AlreadyCompleteError if an earlier one
        has completed the training, StateError in a loop over `steps`. After a notice the training is handed over: then
        another step ends the process, with exit code 0.
        """
        if self._boundary.is_in_body:
            raise StateError(
                "run.advance() was called in a loop over run.steps, which counts its steps itself: remove the call"
            )
        if self._has_shown_left:
            say(
                f"the program trains on after it had to leave at step {self._step}: that step is not saved, and the "
                f"process ends here. Ask run.should_stop before each step"
            )
            raise SystemExit(0)
        if self._environment is not None:
            objects = (*self._objects.values(), *self._per_rank.values())
            self._loops.check_place(resumed_from=self._resumed_from, objects=objects)
            self._goal = self._environment.goal_steps if self._goal is None else self._goal
        if loss is not None or samples:
            self.report(loss, samples)
        left = self._loops.take_left()
        if not left or self.has_stepped:  # otherwise this is the end of the step in which the program left its loop
            self._count()
        self._act()
        self._has_shown_left = self.left

    def _count(self) -> None:
        """Count a step. Other ranks are not asked for anything."""
        if self._complete is not None:
            raise AlreadyCompleteError(self._complete)
        self._step += 1
        self._boundary.reach(self._step)
        if self._environment is not None and self._guard.note(self._step, self._measured.end_step(self._step)):
            self._agreement.ask()

    def _act(self) -> None:
        """Do with all ranks what has to be done after the step that was counted."""
        if self._environment is None:
            return
        if self._progress.count_step(self._step):
            self._progress.state = "training"
            self._poke()
            if self._checkpointer is not None:
                self._checkpointer.prepare()  # now, because the first step has made the optimizer's state
            tell_modules(self._environment)
        # At its end training saves in any case, and a completed one is better than one that left.
        if self._agreement.is_agreed(self._step) and not self._is_at_end:
            self._agreement.meet("act", self._step)
            self._act_together()
        due = self._ranks.size > 1 and not self._must_stop and self._save_is_due(ahead=1)
        if due and (self._checkpointer is None or self._checkpointer.has_room()):
            self._agreement.ask_and_wait()

    def _act_together(self) -> None:
        """Leave, save or end, if a rank has to."""
        checkpointer = self._checkpointer
        full = checkpointer is not None and not checkpointer.saver.can_begin
        out, wrong = checkpointer is not None and bool(checkpointer.stop_error), self._guard.fault is not None
        put_off = self._boundary.take_put_off()  # the program has called `save` inside a step
        obstacle = self._boundary.obstacle
        mine = self._notice.is_given, self._save_is_due(), full, out, wrong, bool(obstacle), put_off
        leave, save, full, out, wrong, is_open, put_off, urgent = self._ranks.any(*mine, self._ending.is_urgent)
        if checkpointer is not None and out:
            checkpointer.raise_stop_error()
        if wrong and self._faults is not None:
            self._faults.end_attempt()
        if save:
            self._boundary.work.tell_at_save()
        if leave and (not is_open or urgent):
            self._ending.leave(self._step, obstacle=obstacle or "another rank is inside a step" if is_open else "")
        elif is_open:
            self._saving.requested |= save  # it stays due, also if `every` is a number of steps
            self._boundary.is_put_off = put_off
            if (leave or put_off) and self._ranks.first:
                self._agreement.ask_and_wait()
        elif put_off or (save and not full):
            self._save_between_steps(wait=put_off)
        elif save:
            self._saving.record_skipped(at_most=checkpointer is not None and checkpointer.saver.has_most_copies)

    def save(self) -> bool:
        """Save, and wait until the checkpoint is committed: then True. False if the save is put off.

        Inside a step the state belongs to no step, so the save takes place at its end (`advance`). A step is the body
        of a loop over `steps`; in another loop it begins with the optimizer's step. In the middle of an accumulation of
        gradients, the save follows the step in which an optimizer steps. If there are several ranks, the save always
        takes place at the end of a step, the first one that no rank has ended: so one of them alone may call this. If
        no step follows, the end of the block saves.
        """
        if self._environment is None or self._checkpointer is None or self.left:
            return False
        if self._ranks.size == 1 and not self._boundary.is_inside:
            return self._save(self._timings.save)
        self._boundary.put_off(self._step)
        self._agreement.ask_and_wait()  # no rank waits for another one here, which may be in its next step by now
        return False

    # The start.

    def _start(self, environment: Environment) -> None:
        self._connect(environment)
        if environment.settings.checkpoint_uri is None:
            say("no checkpoint storage is set: nothing will be saved")
            return
        objects = {**self._objects, **self._per_rank}
        program = describe(
            config=self._config,
            objects=objects,
            ranks=self._ranks.size,
            nodes=environment.nodes,
            code=of_code(environment.settings),
        )
        generators = rng.capture_host()  # a client of a storage draws from the program's (botocore, for delays)
        storage = open_retrying(environment, environment.settings.checkpoint_uri, self._on_silence)
        if environment.predecessor is not None and not self._wait_at_fence(environment, storage):
            return
        self._storage = storage
        self._ending.open_storage(storage)
        choose = partial(self._choose, environment, storage)
        restored = restore(environment, self._ranks, choose, self._objects, self._per_rank)
        self._complete = self._ranks.share(self._complete)
        if restored is not None:
            self._resume(restored, program)
        if self._resumed_from is None:
            rng.restore_host(generators)
        if self._complete is not None:
            self._saving.start(self._complete)
            self._progress.state = "completed"
            self._ending.was_complete = True
            return
        skip(restored, self._objects.values(), self._ranks, self._checkpoints, storage.uri)
        self._slow.start(environment, self._ranks, self._objects.values(), self._progress, self._poke)
        self._guard.start(self._step, is_on=(own := environment.settings).non_finite != "Ignore", spike=own.spike)
        self._faults = Faults(environment, self._guard, self._ranks, self._checkpoints, storage, self._objects)
        self._saving.start(None if restored is None else restored.step_in(storage.uri))
        self._saving.requested |= restored is not None and not restored.is_stored
        fence = self._checkpoints.log.fence if self._checkpoints else None  # on rank 0, which has raised it
        self._checkpointer = SaveCoordinator(
            Open(environment, self._ranks.rank, self._ranks.size, fence, keeps_old=self._saving.requested),
            TrainingState(self._objects, self._per_rank, program),
            ranks=self._ranks,
            schedule=self._saving,
            on_change=self._poke,
            metrics=lambda: decimals(self._measured.of_step),
            clean=self._guard.clean,
            resumed=self._resumed_from,
        )
        self._measured.series = self._checkpointer.series
        self._ending.begin_saving(self._checkpoints, self._checkpointer, self._faults)

    def _connect(self, environment: Environment) -> None:
        """Connect this process with the other ranks, with SIGTERM and with the operator."""
        self._ranks = ranks = Ranks(connect=True)
        self._progress.pulse = begin_rank(environment.verdict_folder, ranks.rank)
        self._progress.steps = environment.goal_steps
        self._saving = SaveSchedule(self._progress, environment.credentials, self._timings)  # here: an order may ask
        self._notice = Notice(
            environment.settings.grace,
            on_given=self._on_notice,
            on_second_sigterm=lambda: self._ending.leave_now(self._step),
            folder=environment.verdict_folder,
        )
        if self._ranks.first and environment.settings.operator_url:
            self._reporter = Reporter(environment, self._progress, self._on_order)
        if ranks.size > 1:
            self._agreement = StepAgreement(
                ranks.rank, ranks.size, ranks.new_store(),
                lambda: self._notice.seconds_left() < self._timings.other_ranks, self._timings,
            )  # fmt: skip
        self._ending = self._make_ending()
        self._notice.listen()
        if self._reporter is not None:
            self._reporter.start()

    def _make_ending(self) -> Ending:
        known = self._environment, self._ranks, self._notice, self._agreement
        return Ending(*known, progress=self._progress, schedule=self._saving, save=self._save, reporter=self._reporter)

    def _wait_at_fence(self, environment: Environment, storage: RetryingStorage) -> bool:
        """Wait until the predecessor has handed over. False if a notice comes before that."""
        predecessor = environment.predecessor or 0
        self._progress.state = "waiting"
        self._poke()
        log = CommitLog(storage, environment.identity)
        may_go_on = self._fence_wait.wait_for(predecessor, log, self._ranks, self._notice)
        self._progress.state = "starting"
        self._poke() if may_go_on else self._ending.leave_fence(predecessor)
        return may_go_on

    def _choose(self, environment: Environment, storage: RetryingStorage, copies: MemoryCheckpoints) -> Candidates:
        """Raise the fence, and return the checkpoints from which to resume. Rank 0 alone calls it.

        If training is complete no fence is raised: the program gets the last state, for what it does afterwards.
        """
        try:
            self._checkpoints = start(environment, storage)
        except AlreadyCompleteError as error:
            say(f"{error.reason}: {error}. No step is left: the program goes on after its training")
            self._complete = error.step
            return Candidates(environment, storage, completed(environment, storage, error.step))
        self._progress.fenced = True
        self._poke()
        return Candidates.own(environment, storage, self._checkpoints, copies)

    def _resume(self, restored: Restored, program: Program) -> None:
        if not put_back(restored, self._ranks, self._objects, self._per_rank, program=program, rules=self._rules):
            return
        self._step = self._resumed_from = restored.step
        assert self._environment is not None
        # A node may be lost between the last checkpoint and the record that training is complete.
        self._has_ended = restored.program.words.get(ENDED) == self._environment.identity.job_uid
        note = restored.note
        if self._complete is not None:
            note = note or "training was complete already"
        elif not has_position((*self._objects.values(), *self._per_rank.values())):
            data = (
                f"no sampler or data loader is among the objects of Run: unless the program itself goes to step "
                f"{self._step} in its data, the data starts at its beginning again"
            )
            note = f"{note}; {data}" if note else data
        say(f"resumed from step {restored.step} ({restored.uri})" + (f"; {note}" if note else ""))
        self._progress.resume(restored.step, restored.uri, note)
        self._poke()

    def _save_is_due(self, ahead: int = 0) -> bool:
        """True, on rank 0, if a save is due after this step, or after `ahead` more."""
        env, has_log = self._environment, self._checkpoints is not None
        return env is not None and has_log and self._saving.is_due(self._step, env.settings.every, ahead)

    def _save_between_steps(self, *, wait: bool) -> None:
        """Save this step. `wait`: until it is committed, because the program has asked for the save."""
        if wait:
            self._save(self._timings.save)
        elif self._checkpointer is not None:
            self._checkpointer.begin(self._step, self._timings.save, math.inf)
        # A notice may have come during the save: then no further step begins.
        if self._ranks.any(self._notice.is_given)[0]:
            self._ending.leave(self._step)

    def _save(self, patience: float, *, last: bool = False) -> bool:
        """Save this step, and wait until it is committed or until it is time to end: `SaveCoordinator.save`."""
        if self._checkpointer is None:
            return False
        before, self._progress.state = self._progress.state, "saving"
        self._poke()
        try:
            return self._checkpointer.save(self._step, patience, self._notice.seconds_left, last=last)
        finally:
            self._progress.state = before

    # Notices and orders.

    def _on_order(self, order: Order) -> None:
        if order.type == DRAIN:
            self._notice.give(order.seconds_left, order.reason or "a drain order")
        elif order.type == CHECKPOINT:
            self._saving.requested = True
        elif order.type == GO:
            self._fence_wait.end(f"ordered to pass the fence ({order.reason or 'an order'})")

    def _on_notice(self, reason: str) -> None:
        """Every wait ends by the new deadline. May be called in a signal handler."""
        self._fence_wait.end(reason)
        self._agreement.ask()
        if self._storage is not None:
            self._storage.shorten_deadline(self._notice.seconds_left())

    def _on_silence(self, silence: Silence | None) -> None:
        """The storage does not answer this process, or answers again. Called in any thread."""
        self._saving.record_silence("trainer", silence)
        self._poke()

    def _poke(self) -> None:
        if self._checkpointer is not None and self._checkpointer.stop_error is not None:
            self._agreement.ask()
        if self._reporter is not None:
            self._reporter.poke()
