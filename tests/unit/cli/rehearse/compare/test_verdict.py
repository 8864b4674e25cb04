"""The verdict on a rehearsal: as a table, and on whole folders."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.support.rehearsed import interrupted, left, losses

from holdfast_cli.rehearse.compare.compare_file import compare_contents
from holdfast_cli.rehearse.compare.difference import Difference, Effort
from holdfast_cli.rehearse.compare.figures import compare_figures
from holdfast_cli.rehearse.compare.findings import File, Kind, Spot, Standing
from holdfast_cli.rehearse.compare.outcome import Outcome
from holdfast_cli.rehearse.compare.reading.read import read_source
from holdfast_cli.rehearse.compare.reading.source import Memory
from holdfast_cli.rehearse.compare.verdict import Runs, Verdict, compare, judge
from holdfast_cli.rehearse.left import Left

Series = dict[int, dict[str, float]]

EQUAL = File(
    "checkpoint-60/model.safetensors", Standing.EQUAL, "safetensors", 99, True, True, {Kind.WEIGHT: 14}, weights=14
)


OPAQUE = File("model.h5", Standing.EQUAL, "bytes", 2048, True, True, {Kind.OTHER: 1})


def off(scaled: float, noise: float | None = None, kind: Kind = Kind.WEIGHT) -> File:
    """A save with a tensor that differs so much, and so much between the undisturbed runs."""
    is_float = kind is Kind.WEIGHT
    amount = Difference(scaled, scaled, scaled, is_float=is_float)
    own = None if noise is None else Difference(noise, noise, noise, is_float=True)
    standing = Standing.DIFFERS if noise is None else Standing.NOISE
    place = Spot("w", standing, kind, "float32 [1]", "float32 [1]", amount, own)
    noisy = {} if noise is None else {"noisy_weights": 1, "weight_noise": noise}
    return replace(EQUAL, standing=standing, places=(place,), equal={Kind.WEIGHT: 13}, **noisy)


def verdict(
    rehearsed: Series | None = None,
    *files: File,
    again: Series | None = None,
    tolerance: float | None = None,
    runs: Runs | None = None,
) -> Verdict:
    figures = compare_figures(
        losses(), losses() if again is None else again, losses() if rehearsed is None else rehearsed
    )
    made = runs or Runs(left("reference"), left("again"), left("rehearsed", starts=interrupted()))
    return judge(made, figures, files, tolerance)


def whole(rehearsed: Left) -> Runs:
    return Runs(left("reference"), left("again"), rehearsed)


LATE = losses(wrong=dict.fromkeys(range(31, 61), 0.7))
QUEUE, LONGER = (read_source(Memory(text)) for text in (b"[1, 2, 3, 4]", b"[1, 2, 2, 3, 4]"))
LIST = replace(compare_contents("checkpoint-60/queue.json", QUEUE, QUEUE, LONGER, Effort()), is_newest=True)
UNREAD = File("model.pt", Standing.NOT_COMPARED, note="Permission denied")
SAMPLED = replace(
    EQUAL, standing=Standing.DIFFERS,
    places=(Spot("w", Standing.DIFFERS, Kind.WEIGHT, amount=Difference(1e-3, None, 1e-3, 9, 9, 99, is_float=True)),),
)  # fmt: skip
TEXT = File("a.json", Standing.DIFFERS, "JSON", places=(Spot("x", Standing.DIFFERS, Kind.OTHER),))


@pytest.mark.parametrize(
    ("found", "outcome", "headline"),
    [
        (
            verdict(None, EQUAL),
            Outcome.EXACT,
            "the loss of 60 steps and 14 tensors of checkpoint-60/model.safe",
        ),
        (verdict(), Outcome.EXACT, "the loss of 60 steps is equal"),
        (verdict({}, EQUAL, again={}), Outcome.EXACT, "14 tensors of"),
        (verdict(None, EQUAL, File("new", Standing.EXTRA)), Outcome.EXACT, "the loss of"),
        (verdict(None, EQUAL, File("old", Standing.NOTED, note="the older save")), Outcome.EXACT, "the loss of"),
        (verdict({}, OPAQUE, again={}), Outcome.EXACT, "2,048 bytes of model.h5 are equal"),
        (
            verdict({}, replace(OPAQUE, is_newest=False), again={}),
            Outcome.NOT_PROVED,
            "there is no figure and no tensor",
        ),
        (verdict({}, again={}), Outcome.NOT_PROVED, "there is no figure and no tensor to compare"),
        (verdict(LATE, EQUAL), Outcome.DIFFERS, "loss differs from step 31 on"),
        (verdict(losses(59), EQUAL), Outcome.DIFFERS, "loss is missing at step 60"),
        (verdict(None, off(0.1)), Outcome.DIFFERS, "1 of 14 tensors of checkpoint-60/model.safetensors differ"),
        (verdict(None, EQUAL, TEXT), Outcome.DIFFERS, "1 of 1 value of a.json differs"),
        (verdict(None, EQUAL, File("a", Standing.MISSING)), Outcome.DIFFERS, "a is missing"),
        (
            verdict(losses(wrong={3: 9.0}), EQUAL),
            Outcome.NOT_PROVED,
            "differs at step 3 already, before any inter",
        ),
        (verdict(None, off(1e-4), tolerance=1e-3), Outcome.WITHIN_TOLERANCE, "within the tolerance of 0.001"),
        (verdict(None, off(1e-2), tolerance=1e-3), Outcome.DIFFERS, "1 of 14 tensors"),
        (verdict(None, off(1e-4, kind=Kind.TENSOR), tolerance=1e-3), Outcome.DIFFERS, "1 of 14 tensors"),
        (verdict(None, off(2e-6, 1e-6)), Outcome.WITHIN_TOLERANCE, "within the program's own noise"),
        (verdict(None, off(0.1, 1e-6)), Outcome.NOT_PROVED, "two undisturbed runs differ already, in 1 tensor of"),
        (verdict(None, off(0.1, 0.1)), Outcome.NOT_PROVED, "two undisturbed runs differ already"),
        (verdict(None, off(0.1, 0.1), tolerance=0.2), Outcome.WITHIN_TOLERANCE, "own noise"),
        (verdict(losses(add=1e-9), again=losses(add=2e-9)), Outcome.WITHIN_TOLERANCE, "own noise"),
        (verdict(losses(add=0.2), again=losses(add=0.1)), Outcome.NOT_PROVED, "in loss from step 1 on"),
        (verdict(losses(add=0.2), EQUAL, again=losses(add=0.1)), Outcome.EXACT, "14 tensors of"),
        (verdict(None, EQUAL, UNREAD), Outcome.NOT_PROVED, "model.pt could not be compared: Permission denied"),
        (verdict(None, EQUAL, LIST), Outcome.DIFFERS, "3 of 5 numbers of checkpoint-60/queue.json differ"),
        (verdict(LATE, EQUAL, UNREAD), Outcome.DIFFERS, "loss differs from step 31 on"),
        (verdict(None, SAMPLED, tolerance=0.1), Outcome.NOT_PROVED, "looked at 9 of 99 numbers of w"),
        (verdict(None, off(0.0), tolerance=0.1), Outcome.WITHIN_TOLERANCE, "all numbers are equal, but some have oth"),
        (verdict(None, off(0.0)), Outcome.WITHIN_TOLERANCE, "all numbers are equal, but some have other bits"),
        (verdict(None, replace(OPAQUE, standing=Standing.NOISE)), Outcome.NOT_PROVED, "in the bytes of model.h5"),
        (verdict(losses(wrong={31: 5.0}), EQUAL), Outcome.DIFFERS, "loss differs from step 31 on: 5 instead of 0.032"),
    ],
)
# Breaks if one kind of evidence leads to another verdict, or if the most important reason does not come first.
def test_the_table(found: Verdict, outcome: Outcome, headline: str) -> None:
    assert (found.kind, headline in found.headline) == (outcome, True), found.headline
    assert not json.dumps(found.as_json(), allow_nan=False).isspace()
    assert all(line and "\n" not in line for line in found.lines())


@pytest.mark.parametrize(
    ("rehearsed", "outcome", "headline"),
    [
        (left("r", starts=interrupted(first=1)), Outcome.FAILED, "start 2 had a checkpoint of step 30, and began with"),
        (left("r", starts=interrupted()[:1]), Outcome.FAILED, "the run 'r' did not come to its end: start 1 was inter"),
        (left("r", starts=()), Outcome.FAILED, "the run 'r' has not started"),
        (left("r"), Outcome.NOT_PROVED, "nothing interrupted the rehearsed run"),
        (
            left("r", starts=(interrupted()[0], replace(interrupted()[1], has_resumed=False, first=1))),
            Outcome.NOT_PROVED, "no start went on from a checkpoint",
        ),
    ],
)  # fmt: skip
# Breaks if a run that proves nothing counts as exact because nothing differs.
def test_starts(rehearsed: Left, outcome: Outcome, headline: str) -> None:
    found = verdict(None, EQUAL, runs=whole(rehearsed))
    assert (found.kind, headline in found.headline) == (outcome, True), found.headline


# Breaks if a run that the program has ended with an error is compared as if it were whole, or if its words are lost.
def test_a_run_that_fails() -> None:
    starts = (replace(interrupted()[1], exit_code=1),)
    found = verdict(runs=Runs(left("reference", starts=starts), left("again"), left("r", starts=interrupted())))
    assert found.kind is Outcome.FAILED
    assert "ended with exit code 1; it said: bye" in found.headline


# Breaks if another newest save is not the first difference, or if names that depend on the time are.
def test_newest_saves() -> None:
    def of(*saves: str) -> Verdict:
        a, b, c = (left(name, saves=save.split()) for name, save in zip("abc", saves, strict=True))
        return verdict(None, EQUAL, runs=Runs(a, b, replace(c, starts=interrupted())))

    headline = of("s-60", "s-60", "s-50").headline
    assert "the rehearsed run ends with another save than s-60: its newest save is s-50" in headline
    headline = of("s-60", "s-60", "s-60 s-61").headline
    assert "trained on from s-60, with which the undisturbed runs end, to s-61: a start that finds" in headline
    assert of("s-60", "s-60", "s-59 s-60").kind is Outcome.EXACT
    assert of("s-60", "s-60", "s-60 s-80").kind is Outcome.DIFFERS
    dated = of("run-1201", "run-1202", "run-1203")
    assert dated.kind is Outcome.EXACT
    assert "names depend on the time cannot be compared" in dated.notes[0]
    assert of("s-60 last", "last s-60", "s-60 last").notes == (), "two saves of one moment"


# Breaks if a program passes that trains on after its end, because it counts its steps, or its patience, anew.
def test_a_training_that_goes_on() -> None:
    runs = [left(name, None, losses(steps)) for name, steps in (("a", 30), ("b", 30), ("c", 50))]
    found = verdict(None, EQUAL, runs=Runs(runs[0], runs[1], replace(runs[2], starts=interrupted())))
    assert found.kind is Outcome.DIFFERS
    assert "trained until step 50, and the undisturbed runs until step 30" in found.headline
    sampled = replace(runs[2], starts=interrupted(), is_sampled=True)
    assert verdict(None, EQUAL, runs=Runs(runs[0], runs[1], sampled)).kind is Outcome.EXACT


# Breaks if a program that reports its steps now and then is blamed for a last report that came at a later step.
@pytest.mark.parametrize("is_sampled", [True, False])
def test_a_last_report_that_comes_later(is_sampled: bool) -> None:
    reference, again, rehearsed = (
        left(name, starts=(replace(interrupted()[1], last=last),)) for name, last in (("a", 58), ("b", 58), ("c", 64))
    )
    runs = Runs(replace(reference, is_sampled=is_sampled), again, replace(rehearsed, is_sampled=is_sampled))
    found = verdict(None, EQUAL, TEXT, runs=runs)
    assert any("counts the steps to do" in cause.words for cause in found.causes) is not is_sampled


# Breaks if the mean of fewer steps, in the first report after a resume, is taken for a training that differs.
def test_a_mean_since_the_last_report() -> None:
    amount = Difference(0.6, 0.9, 0.9, is_float=True)
    history = File(
        "state.json", Standing.DIFFERS, "JSON",
        places=(Spot("log[3].loss", Standing.DIFFERS, Kind.NUMBER, "0.025", "0.7", amount),),
    )  # fmt: skip
    runs = Runs(left("a"), left("b"), left("c", starts=interrupted(first=40)))

    def of(wrong: int, *files: File) -> Verdict:
        three = (losses(), losses(), losses(wrong={wrong: 0.7}))
        every_8 = ({step: run[step] for step in range(8, 61, 8)} for run in three)
        return judge(runs, compare_figures(*every_8), files)

    found = of(40, EQUAL, history)
    assert found.kind is Outcome.EXACT
    assert "; loss differs at step 40, the first report after a resume, as a mean over" in found.headline
    assert [of(40, off(0.1)).kind, of(40).kind, of(48, EQUAL).kind] == [Outcome.DIFFERS] * 3
    other = replace(history, places=(replace(history.places[0], place="log[3].rate"),))
    small = replace(history, places=(replace(history.places[0], first="0.02504"),))
    assert [of(40, EQUAL, other).kind, of(40, EQUAL, small).kind] == [Outcome.DIFFERS] * 2


def program(place: Path, name: str, *, seconds: float, interrupted_run: bool = False, wrong: float = 0.0) -> Left:
    """What a program leaves: a save, a history with times, and a folder named by the time."""
    root = place / name
    (root / "checkpoint-60").mkdir(parents=True)
    (root / f"events-{seconds}").write_bytes(b"\0" + name.encode())
    save_file({"w": np.full(8, 0.5 + wrong, "f4"), "b": np.ones(2, "f4")}, root / "checkpoint-60/model.safetensors")
    (root / "checkpoint-60/state.json").write_text(json.dumps({"epoch": 3, "runtime": seconds}))
    figures = {step: {**one, "samplesPerSecond": seconds} for step, one in losses().items()}
    starts = interrupted() if interrupted_run else left("").starts
    return left(name, root, figures, starts=starts, saves=("checkpoint-60",))


# Breaks if the verdict on real folders does not say what was compared, or blames times and names on an interruption.
def test_whole_folders(tmp_path: Path) -> None:
    a, b = program(tmp_path, "a", seconds=1.5), program(tmp_path, "b", seconds=2.5)
    found = compare(a, b, program(tmp_path, "c", seconds=40.5, interrupted_run=True))
    assert found.lines()[:2] == [
        "exact: the loss of 60 steps and 2 tensors of checkpoint-60/model.safetensors are equal bit by bit",
        "  equal in all: 1 figure at 60 steps, 2 tensors and 1 number; 2 files with 188 bytes were read",
    ]
    assert "note: times, rates and amounts of memory are not compared: samplesPerSecond" in found.lines()
    assert found.as_json()["kind"] == "exact"
    wrong = compare(a, b, program(tmp_path, "d", seconds=3.5, interrupted_run=True, wrong=0.25))
    assert wrong.headline.startswith(
        "differs: 1 of 2 tensors of checkpoint-60/model.safetensors differs: w in 8 of 8 numb"
    )
    assert "w is saved, but is not put back" in wrong.causes[0].words
    near = program(tmp_path, "f", seconds=3.5, interrupted_run=True, wrong=1e-4)
    assert compare(a, b, near, tolerance=1e-3).kind is Outcome.WITHIN_TOLERANCE
    ignored = compare(
        a, b, program(tmp_path, "e", seconds=3.5, interrupted_run=True, wrong=0.25), ignore=("checkpoint-*",)
    )
    assert ignored.kind is Outcome.EXACT
    places = {place["place"]: place["standing"] for file in wrong.as_json()["files"] for place in file["places"]}
    assert places == {"w": "differs", "runtime": "own noise"}
