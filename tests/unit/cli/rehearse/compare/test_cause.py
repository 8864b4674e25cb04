"""What is the likely cause, from the evidence."""

from dataclasses import replace

import pytest
from tests.support.rehearsed import interrupted, losses

from holdfast_cli.rehearse.compare.cause import Cause, Evidence, after_words, likely
from holdfast_cli.rehearse.compare.difference import Difference
from holdfast_cli.rehearse.compare.figures import compare_figures
from holdfast_cli.rehearse.compare.findings import Figure, File, Kind, Spot, Standing
from holdfast_cli.rehearse.left import Interruption, Start

Runs = dict[int, dict[str, float]]


def causes(
    rehearsed: Runs,
    starts: tuple[Start, ...] | None = None,
    files: tuple[File, ...] = (),
    reference: Runs | None = None,
) -> list[Cause]:
    undisturbed = reference or losses()
    figures: tuple[Figure, ...] = compare_figures(undisturbed, undisturbed, rehearsed)
    return likely(Evidence(figures, files, interrupted() if starts is None else starts, 60))


def from_step(step: int) -> Runs:
    return losses(wrong=dict.fromkeys(range(step, 61), 0.7))


def with_rate(runs: Runs, wrong: int = 99) -> Runs:
    """Also a figure that goes down, from step `wrong` on another one."""
    return {step: {**one, "lr": 1 / step + (step >= wrong)} for step, one in runs.items()}


STATE = File("s", Standing.DIFFERS, places=(Spot("rng", Standing.DIFFERS, Kind.TENSOR, amount=Difference()),))

WEIGHTS = replace(STATE, places=(Spot("w", Standing.DIFFERS, Kind.WEIGHT, amount=Difference()),))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (causes(losses(), interrupted(first=1)), "does not resume from its checkpoint"),
        (causes(losses(), interrupted(first=1, resumed=None)), "does not resume from its checkpoint"),
        (causes(losses(90), interrupted(last=90)), "counts the steps to do from its resume on"),
        (causes(losses(50), interrupted(last=50)), "ends too early"),
        (causes(from_step(31)), "the order of the data, a random generator or dropout is not put back"),
        (causes(from_step(32)), "the state of the optimizer, or of the schedule of its learning rate"),
        (causes(from_step(40)), "something that changes only now and then"),
        (causes(from_step(5)), "an interruption is not the cause"),
        (causes(with_rate(from_step(32), 31), reference=with_rate(losses())), "what sets lr is not saved"),
        (causes(losses(), files=(STATE,)), "rng is saved, but is not put back"),
        (causes(losses(), files=(WEIGHTS,)), "the difference began after the last report"),
        (causes(losses(), files=(File("a.csv", Standing.MISSING),)), "a file that the program wrote before"),
        (causes(losses(), files=(File("a.csv", Standing.EQUAL, repeated=7),)), "in a log this is harmless"),
    ],
)
# Breaks if the evidence leads to another cause than the one that it suggests.
def test_the_first_cause(found: list[Cause], words: str) -> None:
    assert words in found[0].words
    assert found[0].is_harmless is ("harmless" in words)


# Breaks if files that a run did not come to, because it failed, are blamed on an interruption.
def test_a_run_that_fails() -> None:
    first, last = interrupted()
    failed = (first, replace(last, exit_code=1, last=40))
    assert causes(losses(40), failed, files=(File("a.csv", Standing.MISSING),)) == []


# Breaks if nobody says that a save was written twice: a library may save again what it has passed over.
def test_an_older_save_that_was_written_again() -> None:
    place = Spot("w", Standing.DIFFERS, Kind.WEIGHT)
    older = File("model_0.pth", Standing.DIFFERS, "archive", places=(place,), weights=1)
    newest = File("model_7.pth", Standing.EQUAL, "archive", is_newest=True, equal={Kind.WEIGHT: 1}, weights=1)
    (found,) = causes(losses(), files=(older, newest))
    assert found.words == "model_0.pth was written again after an interruption, with other tensors than the first time"


# Breaks if a save that a crash has cut is blamed on what Holdfast puts back.
def test_a_save_that_was_cut() -> None:
    files = (File("step-8/model.pth", Standing.EQUAL, "bytes"), File("step-8/config.json", Standing.MISSING))
    (found,) = causes(losses(), interrupted(Interruption.CRASH_IN_SAVE), files=files)
    assert "does not see that the save is not whole" in found.words
    assert found.evidence == "step-8/config.json is missing, and other files of step-8 are there"
    assert after_words(found.after) == "after the crash in a save that ended start 1"


# Breaks if one figure is spoken of as of several, or several as of one.
def test_one_and_many() -> None:
    both = {step: {**one, "acc": one["loss"]} for step, one in from_step(31).items()}
    found = causes(both, reference={step: {**one, "acc": one["loss"]} for step, one in losses().items()})
    assert found[0].evidence.startswith("loss and acc differ at step 31")
    assert causes(from_step(32))[0].evidence == "loss is equal at step 31, the first one of start 2, and not at step 32"


# Breaks if a cause is named although nothing differs.
def test_no_cause() -> None:
    assert causes(losses()) == []


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (Interruption.NOTICE, "after the notice that ended start 1"),
        (Interruption.CRASH, "after the crash that ended start 1"),
        (Interruption.CRASH_IN_SAVE, "after the crash in a save that ended start 1"),
        (Interruption.LOST_NODE, "after the loss of the node that ended start 1"),
    ],
)
# Breaks if a person does not learn which interruption a difference follows.
def test_which_interruption(by: Interruption, words: str) -> None:
    assert after_words(causes(from_step(31), interrupted(by))[0].after) == words


# Breaks if another start than the last one that trained a step is blamed for it.
def test_the_start_that_trained_the_step() -> None:
    starts = (
        Start(1, Interruption.CRASH, None, None, False, 1, 25, 1.0, 1.0),
        Start(2, Interruption.NOTICE, None, 20, True, 21, 37, 1.0, 1.0),
        Start(3, None, 0, 37, True, 38, 60, 1.0, 1.0),
    )
    assert causes(from_step(38), starts)[0].after is starts[1]
    assert causes(from_step(21), starts)[0].after is starts[0]
