"""The verdict on a rehearsal: `compare` looks at the three runs, `judge` decides. `judge` is pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast_cli.rehearse.compare import as_json, words
from holdfast_cli.rehearse.compare.cause import Cause, Evidence, did_not_resume, likely, start_of
from holdfast_cli.rehearse.compare.compare_folders import compare_folders
from holdfast_cli.rehearse.compare.difference import Difference, Effort
from holdfast_cli.rehearse.compare.figures import compare_figures
from holdfast_cli.rehearse.compare.findings import NEAR, WRONG, Figure, File, Kind, Spot, Standing
from holdfast_cli.rehearse.compare.outcome import Outcome
from holdfast_cli.rehearse.compare.reading.read import BYTES
from holdfast_cli.rehearse.compare.stores import compare_stores
from holdfast_cli.rehearse.left import Left, Start

SMALL_NOISE: Final = 1e-3  # relative: undisturbed runs that differ by no more are compared all the same


@dataclass(frozen=True, slots=True)
class Runs:
    """The two undisturbed runs, and the interrupted one."""

    reference: Left
    again: Left
    rehearsed: Left

    @property
    def is_sampled(self) -> bool:
        """True if one of them has not the figures of all of its steps."""
        return self.reference.is_sampled or self.again.is_sampled or self.rehearsed.is_sampled


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rehearsal has shown.

    `headline`: in a sentence. `reasons`: more of it, most important first. `notes`: what is worth knowing, and does not
    count as a difference: extra files, the program's own noise.
    """

    kind: Outcome
    headline: str
    reasons: tuple[str, ...]
    causes: tuple[Cause, ...]
    notes: tuple[str, ...]
    figures: tuple[Figure, ...]
    files: tuple[File, ...]
    tolerance: float | None = None

    def lines(self) -> list[str]:
        """The verdict for people."""
        return words.lines(self.headline, self.reasons, self.causes, self.notes)

    def as_json(self) -> dict[str, Any]:
        """The verdict for programs; see `as_json.to_object` for the keys."""
        texts = {"kind": str(self.kind), "headline": self.headline, "reasons": self.reasons, "notes": self.notes}
        return as_json.to_object(texts, self.causes, self.figures, self.files, self.tolerance)


def compare(
    reference: Left, again: Left, rehearsed: Left, *, ignore: Sequence[str] = (), tolerance: float | None = None
) -> Verdict:
    """The verdict on the run `rehearsed`, beside the undisturbed runs `reference` and `again`.

    `ignore`: patterns as of checkpoint.exclude; files and folders that they fit are left out. `tolerance`: the relative
    difference of floats that counts as equal. It raises nothing because of what the files contain.
    """
    effort = Effort(is_whole=tolerance is not None)
    runs = Runs(reference, again, rehearsed)
    figures = compare_figures(reference.figures, again.figures, rehearsed.figures, is_sampled=runs.is_sampled)
    files = compare_folders(reference, again, rehearsed, ignore, effort)
    if not reference.folders:
        files.append(compare_stores(reference, again, rehearsed, effort))
    return judge(runs, figures, files, tolerance)


def judge(runs: Runs, figures: Sequence[Figure], files: Sequence[File], tolerance: float | None = None) -> Verdict:
    """The verdict on what was found."""
    goal = max(runs.reference.figures, default=None)
    goal = max((start.last for start in runs.reference.starts if start.last is not None), default=goal)
    figures = [excused(figure, files, runs.rehearsed.starts) for figure in figures]
    files = [_with_excused(file, figures) for file in files]
    kind, headline, reasons = _decide(runs, figures, files, tolerance)
    excuses = words.excused(figures)
    if kind in (Outcome.EXACT, Outcome.WITHIN_TOLERANCE):
        headline, excuses = "; ".join([headline, *excuses]), []
    causes = likely(Evidence(figures, files, runs.rehearsed.starts, None if runs.is_sampled else goal))
    is_wrong = kind in (Outcome.DIFFERS, Outcome.FAILED)
    return Verdict(
        kind,
        headline,
        tuple(reasons),
        tuple(cause for cause in causes if is_wrong or cause.is_harmless),
        (*excuses, *_notes_on_saves(runs), *words.notes(figures, files)),
        tuple(figures),
        tuple(files),
        tolerance,
    )


def _decide(
    runs: Runs, figures: Sequence[Figure], files: Sequence[File], tolerance: float | None
) -> tuple[Outcome, str, list[str]]:
    """The outcome, the headline, and the reasons."""
    differences = [*_end(runs), *words.differences(figures, files)]
    if failures := list(_failures(runs)):
        return Outcome.FAILED, f"failed: {failures[0]}", [*failures[1:], *differences]
    noise, sizes = noise_of(figures, files), list(_sizes(figures, files))
    known = [size for size in sizes if size is not None]
    largest = max((size.level for size in known), default=0.0)
    is_small = largest <= max(tolerance or 0.0, NEAR * noise if noise is not None and noise <= SMALL_NOISE else 0.0)
    if len(known) < len(sizes) or (known and not is_small) or any(_end(runs)):
        step = None if is_missing(figures, files) or any(_end(runs)) else _before_all(runs, figures)
        if step is None:
            return Outcome.DIFFERS, f"differs: {differences[0]}", differences[1:]
        text = f"the rehearsed run differs at step {step} already, before any interruption: it is random now and then"
        return Outcome.NOT_PROVED, f"not proved: {text}", differences
    if missing := _missing_proof(runs, figures, files):
        return Outcome.NOT_PROVED, f"not proved: {missing}", []
    if noise is not None and (noise > max(SMALL_NOISE, tolerance or 0.0) or not _are_near(figures, files, tolerance)):
        first, *rest = words.noise(figures, files)
        return Outcome.NOT_PROVED, f"not proved: {first}", rest
    compared = words.compared(figures, files)
    if (known or noise is not None) and not largest and not noise:
        text = "all numbers are equal, but some have other bits, such as -0.0 instead of 0.0"
        return Outcome.WITHIN_TOLERANCE, text, [*differences, *compared]
    sampled = words.sampled(files)
    if known and tolerance is not None and largest <= tolerance:
        if sampled:
            return (
                Outcome.NOT_PROVED,
                f"not proved: {sampled[0]}, which may not have the largest difference",
                differences,
            )
        text = f"within the tolerance of {tolerance:g}: the largest relative difference is {largest:.3g}"
        return Outcome.WITHIN_TOLERANCE, text, [*differences, *compared]
    if known or noise is not None:
        text = f"within the program's own noise: two undisturbed runs differ by up to {noise or 0.0:.3g}, relative"
        return Outcome.WITHIN_TOLERANCE, text, [*sampled, *differences, *words.noise(figures, files)[1:], *compared]
    return Outcome.EXACT, f"exact: {words.equal(figures, files)}", compared


def excused(figure: Figure, files: Sequence[File], starts: Sequence[Start]) -> Figure:
    """The figure, noted as harmless if it differs only in the first report after a resume, and no tensor differs.

    It is then a mean over the steps since the last report, and after a resume these are fewer. A training that has gone
    another way does not come back to the same losses, or to the same tensors of the newest save.
    """
    newest = [file for file in files if file.is_newest and file.weights]
    is_exact = newest and not any(place.kind is Kind.WEIGHT for file in newest for place in file.having(*WRONG))
    if figure.standing is not Standing.DIFFERS or figure.missing or not is_exact or len(figure.wrong) >= figure.steps:
        return figure
    if min(figure.nearest) <= 1:  # a report of one step is not a mean
        return figure
    if any(file.noisy_weights for file in newest) or len(figure.wrong) >= len(starts):
        return figure
    after = [start_of(starts, step) for step, _, _ in figure.wrong]
    is_first = all(
        start is not None and start.has_resumed and start.first is not None and before < start.first
        for start, before in zip(after, figure.before, strict=True)
    )
    return replace(figure, standing=Standing.NOTED) if is_first else figure


def _with_excused(file: File, figures: Sequence[Figure]) -> File:
    """The file, with the numbers noted as harmless that are those of figures that are: a history has these too."""
    noted = [figure for figure in figures if figure.standing is Standing.NOTED]
    places = tuple(
        replace(place, standing=Standing.NOTED) if any(_is_of(place, figure) for figure in noted) else place
        for place in file.places
    )
    if places == file.places:
        return file
    is_wrong = any(place.standing in WRONG for place in places)
    return replace(file, places=places, standing=file.standing if is_wrong else Standing.NOTED)


def _is_of(place: Spot, figure: Figure) -> bool:
    """True if the place is one of the figure, in a history, and has the numbers of a step that differs, or rounded."""
    if place.standing is not Standing.DIFFERS or place.kind is not Kind.NUMBER:
        return False
    if not f".{place.place}".endswith(f".{figure.name}"):
        return False
    try:
        numbers = float(place.first), float(place.second)
    except ValueError:
        return False
    return any(all(map(_is_rounded, numbers, pair)) for _, *pair in figure.wrong)


def _is_rounded(number: float, exact: float) -> bool:
    return math.isclose(number, exact, rel_tol=1e-4)


def is_missing(figures: Sequence[Figure], files: Sequence[File]) -> bool:
    """True if the rehearsed run has not all that both undisturbed runs have."""
    return any(figure.missing and not figure.is_measured for figure in figures) or any(
        file.standing is Standing.MISSING or file.having(Standing.MISSING) for file in files
    )


def _before_all(runs: Runs, figures: Sequence[Figure]) -> int | None:
    """The first step at which a figure differs, if no start was interrupted before it; otherwise None."""
    steps = [figure.first[0] for figure in figures if figure.standing is Standing.DIFFERS and figure.first is not None]
    start = start_of(runs.rehearsed.starts, min(steps)) if steps else None
    is_first = start is not None and start.number == runs.rehearsed.starts[0].number
    return min(steps) if is_first else None


def _failures(runs: Runs) -> Iterator[str]:
    for run in (runs.reference, runs.again, runs.rehearsed):
        if not run.is_complete:
            yield words.incomplete(run)
    for start in did_not_resume(runs.rehearsed.starts):
        of = "" if start.resumed is None else f" of step {start.resumed}"
        yield f"start {start.number} had a checkpoint{of}, and began with step {start.first} all the same"


def _sizes(figures: Sequence[Figure], files: Sequence[File]) -> Iterator[Difference | None]:
    """How large each difference is; None of one that cannot be small: of whole numbers, texts, and what is missing."""
    for figure in figures:
        if figure.standing is Standing.DIFFERS:
            yield Difference(figure.absolute, figure.relative, figure.relative, is_float=True)
        if figure.missing and not figure.is_measured:
            yield None
    for file in files:
        if file.standing is Standing.MISSING:
            yield None
        wrong = file.having(*WRONG)
        for place in wrong:
            yield place.amount if place.amount is not None and place.amount.is_float else None
        if file.more and len(wrong) == len(file.places):
            yield None


def noise_of(figures: Sequence[Figure], files: Sequence[File]) -> float | None:
    """The largest relative difference of the undisturbed runs in what carries weight; None if they are equal there.

    If all tensors of the newest save are equal in both, then figures that differ are times and the like.
    """
    weights = [file.weight_noise for file in files if file.noisy_weights]
    if not weights and any(file.weights for file in files if file.is_newest):
        return None
    losses = [f.relative_noise for f in figures if f.standing is Standing.NOISE and not f.is_measured]
    return max([*weights, *losses], default=None)


def _are_near(figures: Sequence[Figure], files: Sequence[File], tolerance: float | None) -> bool:
    """True if the rehearsed run differs not much more than the undisturbed runs do, where these differ."""
    own = [figure for figure in figures if figure.standing is Standing.NOISE and not figure.is_measured]
    places = [place for file in files for place in file.having(Standing.NOISE) if place.kind is Kind.WEIGHT]
    return all(figure.is_near or figure.relative <= (tolerance or 0.0) for figure in own) and all(
        place.is_near or (place.amount is not None and place.amount.level <= (tolerance or 0.0)) for place in places
    )


def _missing_proof(runs: Runs, figures: Sequence[Figure], files: Sequence[File]) -> str:
    """Why nothing is proved although nothing differs; empty if there is a proof."""
    starts = runs.rehearsed.starts
    if not any(start.ended_by is not None for start in starts):
        return (
            "nothing interrupted the rehearsed run; train for more steps, so that an interruption comes before the end"
        )
    if not any(start.has_resumed for start in starts):
        return "no start went on from a checkpoint; save more often, so that there is one before an interruption"
    if text := words.not_compared(files):
        return text
    newest = [file for file in files if file.is_newest]
    opaque = [one.path for one in newest if one.is_state and one.form == BYTES and one.standing is Standing.NOISE]
    if opaque and not any(file.weights for file in newest):
        return f"two undisturbed runs differ already, in the bytes of {opaque[0]}, whose values are not known"
    has_figure = any(figure.steps and not figure.is_measured for figure in figures)
    has_state = any(
        file.weights or (file.is_state and file.is_newest and file.standing is Standing.EQUAL) for file in files
    )
    if has_figure or has_state:
        return ""
    return (
        "there is no figure and no tensor to compare; report the loss, or save a checkpoint at the end that both "
        "undisturbed runs name the same"
    )


def _end(runs: Runs) -> list[str]:
    """What is wrong with the end of the rehearsed run, in words: its newest save, or its last step."""
    found, (reference, again, rehearsed) = [], (runs.reference, runs.again, runs.rehearsed)
    ends = [max(run.figures, default=None) for run in (reference, again, rehearsed)]
    if not runs.is_sampled and ends[0] is not None and ends[0] == ends[1] and ends[2] is not None and ends[2] > ends[0]:
        found.append(f"the rehearsed run trained until step {ends[2]}, and the undisturbed runs until step {ends[0]}")
    newest = [run.saves[-1] if run.saves else "" for run in (reference, again, rehearsed)]
    is_later = newest[0] in rehearsed.saves[:-1] and newest[2] not in reference.written
    if newest[0] and newest[0] == newest[1] and is_later:
        found.append(
            f"the rehearsed run trained on from {newest[0]}, with which the undisturbed runs end, to {newest[2]}: "
            "a start that finds the save of the last step must end"
        )
    elif newest[0] and newest[0] == newest[1] != newest[2]:
        has = f"its newest save is {newest[2]}" if newest[2] else "it has no save"
        found.append(f"the rehearsed run ends with another save than {newest[0]}: {has}")
    return found


def _notes_on_saves(runs: Runs) -> Iterator[str]:
    reference, again = runs.reference.saves, runs.again.saves
    if reference and again and not (reference[-1] in again and again[-1] in reference):
        yield (
            f"the newest saves of the undisturbed runs have different names, {reference[-1]} and {again[-1]}: saves "
            f"whose names depend on the time cannot be compared"
        )
