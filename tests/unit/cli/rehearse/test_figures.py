"""Losses by step, from what a program printed in each start."""

from pathlib import Path

import pytest

from holdfast_cli.rehearse.figures import printed, reported
from holdfast_cli.rehearse.left import Interruption, Start
from holdfast_train.storage.folder import FolderStorage

PATTERN = "step {step}: loss {loss}"


def start(number: int) -> Start:
    return Start(number, Interruption.CRASH, None, None, has_resumed=False, first=None, last=99, seconds=1.0,
                 seconds_to_first=None)  # fmt: skip


def outputs(place: Path, *texts: str) -> list[Path]:
    found = [place / f"output-{number}" for number in range(len(texts))]
    for path, text in zip(found, texts, strict=True):
        path.write_text(text)
    return found


# Breaks if a step counts as it was before it was lost, if a step that was never trained again stays, or if the launcher
# is asked for steps that the output says better.
def test_the_last_start_of_a_step_counts(tmp_path: Path) -> None:
    first = "step 1: loss 3.0\nnoise\nstep 2: loss 2.123456789\nstep 3: loss 9\nstep 4: loss 9\n"
    second = "\rstep 3: loss 1.5\rstep 5: loss nan\n"
    found, starts, _ = printed(outputs(tmp_path, first, second), [PATTERN], [start(1), start(2)])
    assert {step: values["loss"] for step, values in found.items() if step < 5} == {1: 3.0, 2: 2.123456789, 3: 1.5}
    assert str(found[5]["loss"]) == "nan"
    assert [(one.first, one.last) for one in starts] == [(1, 4), (3, 5)]


# Breaks if a program that prints nothing, or bytes that are not text, ends the rehearsal.
def test_a_start_without_steps(tmp_path: Path) -> None:
    files = outputs(tmp_path, "", "step 7: loss 1\n")
    files[0].write_bytes(b"\xff\x00\n" * 9)
    found, starts, notes = printed(files, [PATTERN], [start(1), start(2)])
    assert found == {7: {"loss": 1.0}}
    assert notes == ()
    assert [(one.first, one.last) for one in starts] == [(None, 99), (7, 7)]
    assert reported(FolderStorage(tmp_path / "no-store" / "job")) == {}


# Breaks if the loss of an earlier step counts for steps of which nothing was said: a start that goes on in between has
# none, and would be said to differ.
def test_a_loss_each_second_step(tmp_path: Path) -> None:
    patterns = ["step {step} of", "loss {loss}"]
    first = "step 1 of 4\nstep 2 of 4\nloss 5\nstep 3 of 4\nstep 4 of 4\nloss 4\n"
    found, starts, _ = printed(
        outputs(tmp_path, first, "step 3 of 4\nstep 4 of 4\nloss 4\n"), patterns, [start(1), start(2)]
    )
    assert found == {2: {"loss": 5.0}, 4: {"loss": 4.0}}
    assert [(one.first, one.last) for one in starts] == [(1, 4), (3, 4)]


# Breaks if steps of an epoch are compared as if they were steps of the training.
def test_a_count_that_begins_again(tmp_path: Path) -> None:
    epochs = "".join(f"step {step}/4: loss {step}\n" for _ in range(3) for step in (1, 2, 3, 4))
    found, starts, notes = printed(outputs(tmp_path, epochs), ["step {step}/{total}: loss {loss}"], [start(1)])
    assert found == {}
    assert "{epoch}" in notes[0]
    assert (starts[0].first, starts[0].last) == (None, 99)


# Breaks if nobody is told why there are no losses.
@pytest.mark.parametrize(("patterns", "words"), [([], "without --progress"), (["epoch {epoch_step}"], "no line")])
def test_why_there_are_no_losses(tmp_path: Path, patterns: list[str], words: str) -> None:
    found, _, notes = printed(outputs(tmp_path, "step 7: loss 1\n"), patterns, [start(1)])
    assert found == {}
    assert words in notes[0]
