"""Loops as people write them: each step of the optimizer is counted once, or the loop is refused at once.

In each checkpoint the weight of the model is the number of steps, because each step of the optimizer adds 1. A shape is
run without an interruption, and with a notice in the middle, after which it is called once more.
"""

import contextlib
import functools
import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.trainer.runs import settle
from tests.support.trainer.stores import environment, identity
from torch.utils.data import DataLoader

from holdfast_protocol.settings import Every, Keep
from holdfast_train import Run, load
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.errors import StateError
from holdfast_train.examples.stub import Counter
from holdfast_train.storage.folder import FolderStorage

EPOCHS, BATCHES = 3, 10
TOTAL = EPOCHS * BATCHES


class Program:
    """A training in a loop of some shape: `batches` is its data, `train` does one step with a batch."""

    def __init__(self, prefix: str, attempt: int, stop_after: int | None) -> None:
        self.model = torch.nn.Linear(1, 1, bias=False)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        with torch.no_grad():
            self.model.weight.zero_()
        self.batches = [-torch.ones(1, 1) for _ in range(BATCHES)]
        self.done, self._stop_after = 0, stop_after
        where = environment(f"file://{prefix}", attempt, every=Every(7))
        self.run = Run(model=self.model, optimizer=self.optimizer, environment=where)

    def train(self, batch: torch.Tensor, step: int | None = None) -> None:
        settle(self.run)
        assert step is None or step == self.run.step
        self.optimizer.zero_grad()
        self.model(batch).sum().backward()
        self.optimizer.step()
        self.done += 1
        if self.done == self._stop_after:
            self.run._notice.give(20.0, "a drain order")


class Bar:
    """A progress bar, as tqdm: it keeps what it goes over."""

    def __init__(self, iterable: Iterable[Any]) -> None:
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        yield from self.iterable


Shape = Callable[[Program], object]
COUNTED: list[Shape] = []
REFUSED: list[tuple[Shape, str]] = []


def counted(shape: Shape) -> Shape:
    COUNTED.append(shape)
    return shape


def refused(words: str) -> Callable[[Shape], Shape]:
    def note(shape: Shape) -> Shape:
        REFUSED.append((shape, words))
        return shape

    return note


def endless(batches: list[Any]) -> Iterator[Any]:
    while True:
        yield from batches


@counted
def one_loop(p: Program) -> None:
    batches = endless(p.batches)
    for step in p.run.steps(TOTAL):
        p.train(next(batches), step)


@counted
def zip_with_steps_first(p: Program) -> None:
    for step, batch in zip(p.run.steps(TOTAL), endless(p.batches), strict=False):
        p.train(batch, step)


@counted
def zip_with_an_endless_loader_first(p: Program) -> None:
    for batch, step in zip(itertools.cycle(p.batches), p.run.steps(TOTAL), strict=False):
        p.train(batch, step)


@counted
def zip_with_a_loader_that_ends_first(p: Program) -> None:
    for batch, step in zip(p.batches * EPOCHS, p.run.steps(TOTAL), strict=False):
        p.train(batch, step)


@counted
def enumerate_over_zip(p: Program) -> None:
    for _, (step, batch) in enumerate(zip(p.run.steps(TOTAL), endless(p.batches), strict=False)):
        p.train(batch, step)


@counted
def while_with_the_loader_first(p: Program) -> None:
    while not p.run.should_stop:
        for batch, step in zip(p.batches[:7], p.run.steps(TOTAL), strict=False):
            p.train(batch, step)


@counted
def while_with_steps_first(p: Program) -> None:
    while not p.run.should_stop:
        for step, batch in zip(p.run.steps(TOTAL), p.batches[:7], strict=False):
            p.train(batch, step)


@counted
def while_with_a_data_loader(p: Program) -> None:
    loader = DataLoader(torch.full((BATCHES, 1), -1.0), batch_size=1, shuffle=True)  # type: ignore[arg-type]
    while not p.run.should_stop:
        for batch, step in zip(loader, p.run.steps(TOTAL), strict=False):
            p.train(batch, step)


@counted
def while_with_a_bar(p: Program) -> None:
    while not p.run.should_stop:
        bar = Bar(zip(p.batches, p.run.steps(TOTAL), strict=False))
        for batch, step in bar:
            p.train(batch, step)


@counted
def while_with_an_evaluation_after_break(p: Program) -> None:
    while not p.run.should_stop:
        for step, batch in zip(p.run.steps(TOTAL), endless(p.batches), strict=False):
            p.train(batch, step)
            if step % 4 == 3:
                break


@counted
def epochs_that_ask_before_each(p: Program) -> None:
    for _ in range(100):
        if p.run.should_stop:
            break
        for batch, step in zip(p.batches, p.run.steps(TOTAL), strict=False):
            p.train(batch, step)


@counted
def epochs_with_a_goal_of_their_own(p: Program) -> None:
    for epoch in range(EPOCHS):
        for step, batch in zip(p.run.steps((epoch + 1) * BATCHES), p.batches, strict=False):
            p.train(batch, step)


@counted
def epochs_with_a_goal_of_their_own_and_the_loader_first(p: Program) -> None:
    for epoch in range(EPOCHS):
        bar = Bar(zip(p.batches, p.run.steps((epoch + 1) * BATCHES), strict=False))
        for batch, step in bar:
            p.train(batch, step)


@counted
def epochs_inside_of_steps(p: Program) -> None:
    steps = iter(p.run.steps(TOTAL))
    for _ in range(EPOCHS):
        for batch in p.batches:
            if (step := next(steps, None)) is None:
                return
            p.train(batch, step)


@counted
def phases(p: Program) -> None:
    for goal in (10, 25, TOTAL):
        for step in p.run.steps(goal):
            p.train(p.batches[0], step)


@counted
def islice(p: Program) -> None:
    while not p.run.should_stop:
        for step in itertools.islice(p.run.steps(TOTAL), 4):
            p.train(p.batches[0], step)


@counted
def a_second_loop_after_break(p: Program) -> None:
    for step in p.run.steps(TOTAL):
        p.train(p.batches[0], step)
        if step == 9:
            break
    if not p.run.should_stop:
        for step in p.run.steps(TOTAL):
            p.train(p.batches[0], step)


@counted
def a_function_that_returns(p: Program) -> None:
    def until_evaluation() -> int:
        for step in p.run.steps(TOTAL):
            p.train(p.batches[0], step)
            if step % 6 == 5:
                return step
        return TOTAL

    while not p.run.should_stop:
        until_evaluation()


@counted
def a_generator_of_the_program(p: Program) -> None:
    def batches() -> Iterator[tuple[int, torch.Tensor]]:
        yield from zip(p.run.steps(TOTAL), p.batches, strict=False)

    while not p.run.should_stop:
        for step, batch in Bar(batches()):
            p.train(batch, step)
            if step % 8 == 7:
                break


@counted
def continue_after_the_step(p: Program) -> None:
    for step, batch in zip(p.run.steps(TOTAL), endless(p.batches), strict=False):
        p.train(batch, step)
        if step % 5:
            continue


@counted
def finally_around_the_loop(p: Program) -> None:
    try:
        for step, batch in zip(p.run.steps(TOTAL), endless(p.batches), strict=False):
            p.train(batch, step)
    finally:
        p.batches.clear()


@counted
def an_error_that_is_caught(p: Program) -> None:
    while not p.run.should_stop:
        try:
            for batch, step in zip(p.batches, p.run.steps(TOTAL), strict=False):
                p.train(batch, step)
                if step == 12:
                    raise ValueError
        except ValueError:
            pass


@counted
def map_and_chain(p: Program) -> None:
    for _ in map(functools.partial(_train, p), itertools.chain(p.run.steps(TOTAL))):
        pass


@counted
def advance_in_a_while_loop(p: Program) -> None:
    while p.run.step < TOTAL and not p.run.should_stop:
        p.train(p.batches[0], p.run.step)
        p.run.advance(loss=1.0)


@counted
def advance_after_break(p: Program) -> None:
    while not p.run.should_stop:
        for step in p.run.steps(TOTAL):
            p.train(p.batches[0], step)
            if step == 9:
                break
        if p.run.step == 10:
            p.run.advance()  # for the step that was left
            p.train(p.batches[0], 10)
            p.run.advance()


@counted
def accumulated_gradients_in_a_step(p: Program) -> None:
    for step in p.run.steps(TOTAL):
        for _ in range(3):
            (p.model(p.batches[0]).sum() / 3).backward()
        p.optimizer.zero_grad()
        p.train(p.batches[0], step)


def _train(p: Program, step: int) -> None:
    p.train(p.batches[0], step)


@refused("while not run.should_stop:")
def epochs_with_the_steps_of_one(p: Program) -> None:
    for _ in range(EPOCHS):
        for step, batch in zip(p.run.steps(len(p.batches)), p.batches, strict=False):
            p.train(batch, step)


@refused("while not run.should_stop:")
def epochs_with_the_goal_of_all(p: Program) -> None:
    for _ in range(EPOCHS):
        for batch, step in zip(p.batches, p.run.steps(TOTAL), strict=False):
            p.train(batch, step)


@refused("asked run.should_stop before it")
def a_second_loop_that_does_not_ask(p: Program) -> None:
    for step in p.run.steps(TOTAL):
        p.train(p.batches[0], step)
        if step == 9:
            break
    for step in p.run.steps(TOTAL):
        p.train(p.batches[0], step)


@refused("run.steps(10) was called again without a larger goal")
def a_loop_in_a_loop(p: Program) -> None:
    for _ in p.run.steps(TOTAL):
        for step in p.run.steps(10):
            p.train(p.batches[0], step)


@refused("goes on after another one has begun")
def steps_as_epochs(p: Program) -> None:
    for _ in p.run.steps(EPOCHS):
        for step in p.run.steps(TOTAL):
            p.train(p.batches[0], step)


@refused("run.advance() was called in a loop over run.steps")
def advance_in_a_loop_over_steps(p: Program) -> None:
    for step in p.run.steps(TOTAL):
        p.train(p.batches[0], step)
        p.run.advance()


def _train_all(p: Program, steps: Iterable[Any]) -> None:
    for step in steps:
        p.train(p.batches[0])
        p.run.report(loss=float(p.run.step), samples=isinstance(step, int))


@refused("reads them ahead, as list(run.steps(goal)) does")
def list_of_steps(p: Program) -> None:
    _train_all(p, list(p.run.steps(TOTAL)))


@refused("reads them ahead, as list(run.steps(goal)) does")
def enumerate_over_a_list_of_zip(p: Program) -> None:
    _train_all(p, enumerate(Bar(list(zip(p.run.steps(TOTAL), endless(p.batches), strict=False)))))


@refused("reads them ahead, as list(run.steps(goal)) does")
def lists_of_parts(p: Program) -> None:
    while not p.run.should_stop:
        _train_all(p, list(itertools.islice(p.run.steps(TOTAL), 9)))


@refused("trained none of them")
def steps_that_train_nothing(p: Program) -> None:
    for _ in p.run.steps(TOTAL):
        settle(p.run)


@refused("in another thread")
def a_thread_that_reads_ahead_and_drops_its_error(p: Program) -> None:
    steps: queue.Queue[int | None] = queue.Queue()

    def read() -> None:
        with contextlib.suppress(StateError):
            for step in p.run.steps(TOTAL):
                steps.put(step)
        steps.put(None)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    _train_all(p, iter(steps.get, None))


@refused("in another thread")
def a_loop_that_is_handed_to_a_thread(p: Program) -> None:
    steps = p.run.steps(TOTAL)
    next(steps)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(next, steps).result()


@refused("in another thread")
def steps_that_are_fetched_ahead(p: Program) -> None:
    fetched: queue.Queue[Any] = queue.Queue()
    pairs = zip(p.run.steps(TOTAL), endless(p.batches), strict=False)

    def fetch() -> None:
        try:
            fetched.put(next(pairs))
        except StateError as error:
            fetched.put(error)

    thread = threading.Thread(target=fetch)
    thread.start()
    thread.join()
    if isinstance(found := fetched.get(), StateError):
        raise found


def kept_weights(prefix: str) -> dict[int, float]:
    """By step: the weight in each checkpoint that the log has. The writer may still delete others."""
    commits = CommitLog(FolderStorage(prefix), identity(9)).refresh().commits
    names = {commit.step: commit.name.manifest_key for commit in commits}
    return {step: load(f"{prefix}/{key}")["model"]["weight"].item() for step, key in names.items()}


@pytest.mark.parametrize("shape", COUNTED, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("stop_after", [None, 13, 20])
def test_each_step_of_the_optimizer_is_counted_once(tmp_path: Path, shape: Shape, stop_after: int | None) -> None:
    """Breaks if a checkpoint has the state of another number of steps, or if the training has more or fewer."""
    prefix, done = f"{tmp_path}/prefix", 0
    for attempt in (1, 2) if stop_after else (1,):
        program = Program(prefix, attempt, stop_after if attempt == 1 else None)
        with program.run as run:
            shape(program)
        done += program.done
        assert run.left is (attempt == 1 and stop_after is not None)
    assert (run.step, done) == (TOTAL, TOTAL)
    weights = kept_weights(prefix)
    assert max(weights) == TOTAL
    assert all(weight == step for step, weight in weights.items())


@pytest.mark.parametrize(("shape", "words"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_loop_that_would_miscount_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: Shape, words: str
) -> None:
    program = Program(f"{tmp_path}/prefix", 1, None)
    with pytest.raises(SystemExit) as error, program.run:
        shape(program)
    assert error.value.code
    assert words in capsys.readouterr().err
    found = Checkpoints(FolderStorage(f"{tmp_path}/prefix"), identity(2), Keep())
    found.start("Auto")  # AlreadyCompleteError if the training were complete
    assert all(weight == step for step, weight in kept_weights(f"{tmp_path}/prefix").items())


@pytest.mark.parametrize("shape", COUNTED, ids=lambda shape: shape.__name__)
def test_outside_a_pod_the_same_steps_are_trained(tmp_path: Path, shape: Shape) -> None:
    program = Program(f"{tmp_path}/prefix", 1, None)
    program.run = Run(model=program.model, optimizer=program.optimizer)
    with program.run as run:
        shape(program)
    assert (run.step, program.done) == (TOTAL, TOTAL)
    assert not program.optimizer._optimizer_step_post_hooks


# Breaks if parts of an accumulation that end with their loader are lost.
def test_batches_of_an_accumulation_are_counted_at_the_end_of_a_loader(tmp_path: Path) -> None:
    program = Program(f"{tmp_path}/prefix", 1, None)
    seen = 0
    with program.run as run:
        while not run.should_stop:
            for batch, step in zip(program.batches, run.steps(TOTAL), strict=False):
                assert step == seen
                program.model(batch).sum().backward()
                seen += 1
                if step % 4 == 3:
                    program.optimizer.step()
                    program.optimizer.zero_grad()
    assert (run.step, seen) == (TOTAL, TOTAL)


@pytest.mark.parametrize("reports", [True, False])
def test_without_an_optimizer_the_loss_shows_that_a_step_was_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reports: bool
) -> None:
    """Breaks if a step of a program without torch is lost, or is counted although it was not trained."""
    counter = Counter()

    def train(run: Run) -> None:
        while not run.should_stop:
            for _, step in zip(range(5), run.steps(12), strict=False):
                counter.add(step)
                if reports:
                    run.report(loss=1.0)
            if run.should_stop:
                break
            for step, _ in zip(run.steps(12), range(2), strict=False):
                counter.add(step)
                if reports:
                    run.report(loss=1.0)

    with Run(counter=counter, environment=environment(f"file://{tmp_path}/prefix")) as run:
        if reports:
            train(run)
        else:
            with pytest.raises(StateError, match=r"Call run.report\(loss=...\) in each step"):
                train(run)
            run.left = True
    assert not reports or (run.step, counter.total) == (12, sum(range(1, 13)))


# Breaks if a save of steps that only gather data is lost although the program says so, or if a buffer goes unnoticed.
@pytest.mark.parametrize("says", [True, False])
def test_the_first_steps_may_train_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], says: bool) -> None:
    program = Program(f"{tmp_path}/prefix", 1, None)
    with program.run as run:
        for step in run.steps(20):
            settle(run)
            if step >= 10:
                program.train(program.batches[0], step)
            elif says:
                run.report()
        settle(run)
        saved = [int(Path(key).name[:12]) for key in FolderStorage(f"{tmp_path}/prefix").keys("manifests/")]
        run.left = True
    assert saved == ([7, 14] if says else [11, 14])
    told = capsys.readouterr().err
    assert ("the program has trained nothing in its steps so far: the save waits" in told) is not says
    assert ("trained nothing in the first 10 steps of its loop. If it reads" in told) is not says


# Breaks if a save is held up where a parameter changes without a step of an optimizer, as in a CUDA graph.
def test_a_parameter_that_changes_shows_that_the_program_trains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = Program(f"{tmp_path}/prefix", 1, None)
    with program.run as run:
        for _ in run.steps(TOTAL):
            settle(run)
            program.model.weight.data.add_(1.0)
    assert "saved step 7:" in capsys.readouterr().err


def test_a_program_that_shows_nothing_is_told_so_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Run(counter=Counter(), environment=environment(f"file://{tmp_path}/prefix", every=Every(2))) as run:
        for _ in run.steps(9):
            settle(run)
    assert capsys.readouterr().err.count("nothing shows whether the program trains in its steps") == 1


def test_outside_a_pod_steps_that_are_read_ahead_are_refused() -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with pytest.raises(StateError, match="trained none of them"), Run(model=model, optimizer=optimizer) as run:
        assert list(run.steps(3)) == [0, 1, 2]


def epochs_with_advance(p: Program) -> None:
    for _ in range(EPOCHS):
        for batch in p.batches:
            p.train(batch)
            p.run.advance()
            if p.run.should_stop:
                return


# Breaks if a loop over epochs silently trains all its steps once more after a resume, or if one that asks is blamed.
@pytest.mark.parametrize("asks", [False, True])
def test_a_loop_that_does_not_know_its_place_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asks: bool
) -> None:
    for attempt, words in (
        (1, "an attempt that resumes would begin"),
        (2, "13 steps are done, and if the loop begins"),
    ):
        program = Program(f"{tmp_path}/prefix", attempt, 13 if attempt == 1 else None)
        with program.run as run:
            while asks and not run.should_stop and run.step < TOTAL:
                program.train(program.batches[0])
                run.advance()
            if not asks:
                epochs_with_advance(program)
        assert (words in capsys.readouterr().err) is not asks


# Breaks if a loop without run.steps never reaches the goal of the job.
@pytest.mark.parametrize("stop_after", [None, 13, TOTAL])
def test_the_goal_of_the_job_ends_a_loop_with_advance(tmp_path: Path, stop_after: int | None) -> None:
    done = 0
    for attempt in (1, 2):
        program = Program(f"{tmp_path}/prefix", attempt, stop_after if attempt == 1 else None)
        where = environment(f"file://{tmp_path}/prefix", attempt, HOLDFAST_GOAL_STEPS=str(TOTAL))
        program.run = Run(model=program.model, optimizer=program.optimizer, environment=where)
        with program.run as run:
            while not run.should_stop:
                program.train(program.batches[0])
                run.advance()
        done += program.done
    assert (done, run.step, run.left) == (TOTAL, TOTAL, False)


# Breaks if a step whose number zip has dropped goes unnoticed, or if one that says that it trains nothing is blamed.
@pytest.mark.parametrize("says", [True, False])
def test_a_step_in_which_nothing_is_trained_is_told_once(capsys: pytest.CaptureFixture[str], says: bool) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with Run(model=model, optimizer=optimizer) as run:
        steps = run.steps(TOTAL)
        for _ in range(EPOCHS):
            for _, batch in zip(steps, [torch.ones(1, 1)] * (BATCHES - 1), strict=False):
                optimizer.zero_grad()
                model(batch).sum().backward()
                optimizer.step()
            if says:
                run.report()
    told = capsys.readouterr().err
    assert told.count("nothing shows that step 10 was trained") == told.count("nothing shows") == (not says)


# Breaks if steps that each attempt does again, before its loop or between two of them, go unnoticed.
@pytest.mark.parametrize("place", ["before", "between", "nowhere"])
def test_a_step_outside_of_the_loop_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    program = Program(f"{tmp_path}/prefix", 1, None)
    with program.run as run:
        for part in ("before", "between"):
            for _ in range(2 if part == place else 0):
                program.train(program.batches[0])
            for step in run.steps(5 if part == "before" else 10):
                program.train(program.batches[0], step)
                if step % 5 == 3:
                    break
    assert capsys.readouterr().err.count("has stepped outside of the loop over run.steps") == (place != "nowhere")
