"""What is the likely cause of a difference, from the evidence: a small table of rules. Pure.

The rules know no framework and no meaning of a figure, except that `loss` is the loss.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast_cli.rehearse.compare.findings import WRONG, Figure, File, Kind, Standing
from holdfast_cli.rehearse.left import Interruption, Start

_AFTER: Final = {
    Interruption.NOTICE: "the notice",
    Interruption.CRASH: "the crash",
    Interruption.CRASH_IN_SAVE: "the crash in a save",
    Interruption.LOST_NODE: "the loss of the node",
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the rules look at. `goal`: the last step of the reference; None if it is not known."""

    figures: Sequence[Figure]
    files: Sequence[File]
    starts: Sequence[Start]
    goal: int | None


@dataclass(frozen=True, slots=True)
class Cause:
    """`words`: what is likely, in a sentence. `evidence`: why. `after`: the start that ended before it; None: none.

    `is_harmless`: nothing has to be done.
    """

    words: str
    evidence: str
    after: Start | None = None
    is_harmless: bool = False


def did_not_resume(starts: Sequence[Start]) -> list[Start]:
    """The starts that had a checkpoint of a later step, and began with the first step all the same."""
    found = []
    for number, start in enumerate(starts):
        step = (
            start.resumed if start.resumed is not None else max((one.last or 0 for one in starts[:number]), default=0)
        )
        if start.has_resumed and step > 1 and start.first is not None and start.first <= 1:
            found.append(start)
    return found


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def differ(names: Sequence[str]) -> str:
    """`a differs`, `a and b differ`."""
    return f"{listed(names)} {'differs' if len(names) == 1 else 'differ'}"


def _are(names: Sequence[str]) -> str:
    return f"{listed(names)} {'is' if len(names) == 1 else 'are'}"


def likely(evidence: Evidence) -> list[Cause]:
    """The causes that the evidence suggests, the most likely first; none if nothing differs."""
    return [cause for rule in _RULES if (cause := rule(evidence)) is not None]


def after_words(start: Start | None) -> str:
    """`after the crash that ended start 2`; empty if nothing ended before."""
    if start is None or start.ended_by is None:
        return ""
    return f"after {_AFTER[start.ended_by]} that ended start {start.number}"


def _no_resume(evidence: Evidence) -> Cause | None:
    starts = did_not_resume(evidence.starts)
    if not starts:
        return None
    start = starts[0]
    of = "" if start.resumed is None else f" of step {start.resumed}"
    return Cause(
        "the program does not resume from its checkpoint, or counts its steps from the beginning again",
        f"start {start.number} had a checkpoint{of}, and the first step that it reported is {start.first}",
        _before(evidence.starts, start),
    )


def _more_steps(evidence: Evidence) -> Cause | None:
    last = max((start.last for start in evidence.starts if start.last is not None), default=None)
    if last is None or evidence.goal is None or last <= evidence.goal:
        return None
    start = next(one for one in evidence.starts if one.last == last)
    return Cause(
        "the program counts the steps to do from its resume on, not from the beginning",
        f"it trained to step {last}, and the undisturbed run to step {evidence.goal}",
        _before(evidence.starts, start),
    )


def _fewer_steps(evidence: Evidence) -> Cause | None:
    last = evidence.starts[-1].last if evidence.starts else None
    is_known = evidence.goal is not None and _is_complete(evidence.starts) and not did_not_resume(evidence.starts)
    if last is None or not is_known or not any(one.missing and one.missing[-1] > last for one in evidence.figures):
        return None
    return Cause(
        "the program ends too early after a resume",
        f"its last start ended at step {last}, and the undisturbed run at step {evidence.goal}",
        _before(evidence.starts, evidence.starts[-1]),
    )


def _first_difference(evidence: Evidence) -> Cause | None:
    wrong = [figure for figure in evidence.figures if figure.standing is Standing.DIFFERS and figure.first is not None]
    if not wrong or did_not_resume(evidence.starts):
        return None
    step = min(figure.first[0] for figure in wrong if figure.first is not None)
    names = [figure.name for figure in wrong if figure.first is not None and figure.first[0] == step]
    start = start_of(evidence.starts, step)
    before = None if start is None else _before(evidence.starts, start)
    if start is None or before is None:
        return Cause(
            "an interruption is not the cause: something in the program is random, or depends on the time",
            f"{differ(names)} at step {step} already, before any interruption",
        )
    later = [
        figure.name for figure in evidence.figures if figure.name not in names and figure.standing is Standing.EQUAL
    ]
    equal = f", while {_are(later[:3])} equal" if later else ""
    losses = [figure for figure in evidence.figures if figure.name == "loss" and figure.standing is not Standing.NOISE]
    if losses and "loss" not in names:
        return Cause(
            f"what sets {listed(names)} is not saved, or not put back",
            f"{differ(names)} first, at step {step}{_of_loss(evidence)}",
            before,
        )
    if start.first == step:
        return Cause(
            "the order of the data, a random generator or dropout is not put back",
            f"{differ(names)} at step {step}, the first one of start {start.number}{_weights(evidence)}{equal}",
            before,
        )
    if start.first is not None and step == start.first + 1:
        return Cause(
            "the state of the optimizer, or of the schedule of its learning rate, is not saved or not put back",
            f"{_are(names)} equal at step {start.first}, the first one of start {start.number}, and not at step {step}"
            f"{equal}",
            before,
        )
    return Cause(
        "something that changes only now and then is not put back, such as the order of the data in the next epoch",
        f"{_are(names)} equal from step {start.first} to {step - 1} of start {start.number}, and not at step {step}"
        f"{equal}",
        before,
    )


def _of_loss(evidence: Evidence) -> str:
    loss = next((figure for figure in evidence.figures if figure.name == "loss"), None)
    if loss is None or loss.first is None:
        return ", and the loss does not differ"
    return f", and the loss from step {loss.first[0]} on"


def _weights(evidence: Evidence) -> str:
    newest = [file for file in evidence.files if file.is_newest and file.equal.get(Kind.WEIGHT)]
    is_equal = newest and all(file.standing in (Standing.EQUAL, Standing.NOISE) for file in newest)
    return ", while the tensors of the newest save are equal" if is_equal else ""


def _only_state(evidence: Evidence) -> Cause | None:
    """Figures are equal, and something in a file is not."""
    if any(figure.standing in (Standing.DIFFERS, Standing.MISSING) for figure in evidence.figures):
        return None
    places = [
        (file.path, place)
        for file in evidence.files
        for place in file.having(Standing.DIFFERS)
        if place.kind is not Kind.OTHER
    ]
    figures = [figure for figure in evidence.figures if figure.standing is Standing.EQUAL]
    newest = [file for file in evidence.files if file.is_newest and file.weights]
    is_exact = newest and not any(place.kind is Kind.WEIGHT for file in newest for place in file.having(*WRONG))
    if not places or not (figures or is_exact):
        return None
    equal = "all figures are equal" if figures else "all tensors of the newest save are equal"
    path, place = places[0]
    name = place.place or "a value"
    file = next(file for file in evidence.files if file.path == path)
    if is_exact and place.kind is Kind.WEIGHT and not file.is_newest:
        return Cause(
            f"{path} was written again after an interruption, with other tensors than the first time",
            f"all tensors of the newest save are equal, and {name} of {path} differs",
        )
    if place.kind is Kind.WEIGHT and not file.equal.get(Kind.WEIGHT):
        return Cause(
            "the difference began after the last report, or is too small for the figures to show it",
            f"all figures are equal, and no tensor of {path} is",
        )
    return Cause(
        f"{name} is saved, but is not put back after an interruption",
        f"{equal}, and {name} of {path} differs",
    )


def _missing_file(evidence: Evidence) -> Cause | None:
    missing = [file for file in evidence.files if file.standing is Standing.MISSING]
    if not missing or not _is_complete(evidence.starts):
        return None
    what = missing[0].path if len(missing) == 1 else f"{missing[0].path} and {len(missing) - 1:,} more"
    folders = {file.path.rpartition("/")[0] for file in missing}
    crash = next((start for start in evidence.starts if start.ended_by is Interruption.CRASH_IN_SAVE), None)
    is_part = any(file.form and file.path.rpartition("/")[0] in folders for file in evidence.files)
    if crash is not None and len(folders) == 1 and "" not in folders and is_part:
        return Cause(
            "the program went on from a save that the crash had cut: it does not see that the save is not whole",
            f"{what} {'is' if len(missing) == 1 else 'are'} missing, and other files of {folders.pop()} are there",
            crash,
        )
    return Cause(
        "a file that the program wrote before an interruption was not put back, or is not written again",
        f"both undisturbed runs have {what}, the rehearsed run has not",
    )


def _repeated(evidence: Evidence) -> Cause | None:
    repeated = [file for file in evidence.files if file.repeated]
    if not repeated:
        return None
    rows = sum(file.repeated for file in repeated)
    return Cause(
        "a file has the steps twice that were trained twice: in a log this is harmless, in a file of results it is not",
        f"{repeated[0].path} has all rows of the undisturbed run in their order, and {rows:,} more",
        is_harmless=True,
    )


def _is_complete(starts: Sequence[Start]) -> bool:
    """False if the program has failed: then it has not come to what is missing."""
    return not starts or (starts[-1].ended_by is None and starts[-1].exit_code == 0)


def start_of(starts: Sequence[Start], step: int) -> Start | None:
    """The last start that trained `step`; None if none is known to have trained it."""
    return next((start for start in reversed(starts) if start.first is not None and start.first <= step), None)


def _before(starts: Sequence[Start], start: Start) -> Start | None:
    return next((one for one in reversed(starts) if one.number < start.number), None)


_RULES: Final[tuple[Callable[[Evidence], Cause | None], ...]] = (
    _no_resume, _more_steps, _fewer_steps, _first_difference, _only_state, _missing_file, _repeated,
)  # fmt: skip
