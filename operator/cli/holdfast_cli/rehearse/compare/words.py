"""A verdict in words for people. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast_cli.rehearse.compare.cause import Cause, after_words, listed
from holdfast_cli.rehearse.compare.difference import OTHER_BITS
from holdfast_cli.rehearse.compare.findings import WRONG, Figure, File, Kind, Spot, Standing
from holdfast_cli.rehearse.left import Left
from holdfast_train.pod.launcher.failed_process import last_word

SHOWN: Final = 3  # names in a line
MOST_LINES: Final = 12  # of differences

_MEAN: Final = "the first report after a resume, as a mean over the steps since the last report does"


def lines(headline: str, reasons: Sequence[str], causes: Sequence[Cause], notes: Sequence[str]) -> list[str]:
    """The verdict line by line."""
    found = [headline, *(f"  {reason}" for reason in reasons)]
    for cause in causes:
        after = after_words(cause.after)
        found.append(f"likely: {cause.words}")
        found.append(f"  evidence: {cause.evidence}{f'; {after}' if after else ''}")
    return [*found, *(f"note: {note}" for note in notes)]


def incomplete(run: Left) -> str:
    """Why a run did not come to its end."""
    last = run.starts[-1] if run.starts else None
    if last is None:
        return f"the run {run.name!r} has not started"
    end = "was interrupted" if last.ended_by is not None else f"ended with exit code {last.exit_code}"
    said = [line for line in run.said.splitlines() if line.strip()]
    return f"the run {run.name!r} did not come to its end: start {last.number} {end}" + (
        f"; it said: {last_word(said)[:200]}" if said else ""
    )


def equal(figures: Sequence[Figure], files: Sequence[File]) -> str:
    """What of weight is equal: `the loss of 60 steps and 14 tensors of checkpoint-60/model.safetensors are ...`."""
    parts, tensors = list[str](), 0
    names = [figure for figure in figures if figure.standing is Standing.EQUAL and figure.steps]
    if names:
        steps = max(figure.steps for figure in names)
        parts.append(f"{_figures(names)} of {_count(steps, 'step')}")
    newest = [file for file in files if file.equal.get(Kind.WEIGHT) and file.is_newest]
    weighty = newest or [file for file in files if file.equal.get(Kind.WEIGHT)]
    if weighty:
        tensors = sum(file.equal[Kind.WEIGHT] + file.equal.get(Kind.TENSOR, 0) for file in weighty)
        parts.append(f"{_count(tensors, 'tensor')} of {_paths(weighty)}")
    opaque = [file for file in files if file.is_newest and file.is_state and file not in weighty and not file.places]
    opaque = [file for file in opaque if file.form == "bytes"] if parts else opaque
    if opaque:
        parts.append(f"{sum(file.size for file in opaque):,} bytes of {_paths(opaque)}")
    is_one = len(parts) == 1 and (len(names) == 1 or tensors == 1)
    return f"{listed(parts)} {'is' if is_one else 'are'} equal bit by bit"


def excused(figures: Sequence[Figure]) -> list[str]:
    """The figures that differ only in the first report after a resume, with these steps."""
    found = [figure for figure in figures if figure.standing is Standing.NOTED]
    return [f"{figure.name} differs at {_steps(figure)}, {_MEAN}" for figure in found]


def _steps(figure: Figure) -> str:
    return f"step{'' if len(figure.wrong) == 1 else 's'} {listed([str(step) for step, _, _ in figure.wrong])}"


def compared(figures: Sequence[Figure], files: Sequence[File]) -> list[str]:
    """How much was compared and is equal, in one line."""
    own = [figure for figure in figures if not figure.is_measured and figure.standing is Standing.EQUAL]
    read = [file for file in files if file.form]
    counts = {kind: sum(file.equal.get(kind, 0) for file in read) for kind in Kind}
    tensors, numbers = counts[Kind.WEIGHT] + counts[Kind.TENSOR], counts[Kind.NUMBER]
    steps = max((figure.steps for figure in own), default=0)
    values = [
        _count(len(own), "figure") + f" at {_count(steps, 'step')}" if own else "",
        _count(tensors, "tensor") if tensors else "",
        _count(numbers, "number") if numbers else "",
        _count(counts[Kind.OTHER], "other value") if counts[Kind.OTHER] else "",
    ]
    were = "was" if len(read) == 1 else "were"
    where = f"; {_count(len(read), 'file')} with {sum(file.size for file in read):,} bytes {were} read" if read else ""
    return [f"equal in all: {listed([value for value in values if value]) or 'nothing'}{where}"]


def differences(figures: Sequence[Figure], files: Sequence[File]) -> list[str]:
    """What differs, most important first."""
    found = [line for figure in figures for line in _figure(figure)]
    ordered = sorted(files, key=lambda file: (not file.is_newest, _rank(file), file.path))
    found += [line for file in ordered if (line := _file(file))]
    more = len(found) - MOST_LINES
    return found if more <= 0 else [*found[:MOST_LINES], f"and {more:,} more"]


def _rank(file: File) -> int:
    kinds = {place.kind for place in file.having(*WRONG)}
    order = [Kind.WEIGHT in kinds, file.standing is Standing.MISSING, Kind.TENSOR in kinds, Kind.NUMBER in kinds, True]
    return order.index(True)


def _figure(figure: Figure) -> Iterator[str]:
    if figure.standing is Standing.DIFFERS and figure.first is not None:
        step, first, second = figure.first
        before = "no step before it is equal" if figure.last_equal is None else f"step {figure.last_equal} is equal"
        text = f"{figure.name} differs from step {step} on: {second:.8g} instead of {first:.8g}; {before}"
        size = f"the largest relative difference is {figure.relative:.3g}"
        text += f"; {size if figure.absolute else OTHER_BITS}"
        if figure.final is not None and figure.final[0] != step:
            text += f"; at step {figure.final[0]} it is {figure.final[2]:.8g} instead of {figure.final[1]:.8g}"
        yield text
    if figure.missing and not figure.is_measured:
        at = f"{_count(len(figure.missing), 'step')}, the first is " if len(figure.missing) > 1 else ""
        yield f"{figure.name} is missing at {at}step {figure.missing[0]}"


def _file(file: File) -> str:
    if file.standing is Standing.MISSING:
        return f"{file.path} is missing: both undisturbed runs have it{f'; {file.note}' if file.note else ''}"
    wrong = file.having(*WRONG)
    if not wrong:
        return ""
    kinds = {Kind.WEIGHT: "tensor", Kind.TENSOR: "tensor", Kind.NUMBER: "number", Kind.OTHER: "value"}
    noun = kinds[wrong[0].kind]
    count = sum(kinds[place.kind] == noun for place in wrong)
    total = count + sum(file.equal.get(kind, 0) for kind in kinds if kinds[kind] == noun)
    shown = "; ".join(_place(place) for place in wrong[:SHOWN])
    rest = len(wrong) + file.more - SHOWN
    more = f"; and {_count(rest, 'more place')}" if rest > 0 else ""
    differ = "differs" if count == 1 else "differ"
    return f"{count:,} of {_count(total, noun)} of {file.path} {differ}: {shown}{more}"


def _place(place: Spot) -> str:
    name, amount = place.place or "it", place.amount
    if place.standing is Standing.MISSING:
        return f"{name} is missing"
    if amount is None or amount.absolute is None:
        words = amount.words if amount is not None else ""
        values = f": {place.second!r} instead of {place.first!r}" if words in ("another text", "another value") else ""
        return f"{name} has {words}{values}" if words else name
    if place.kind in (Kind.WEIGHT, Kind.TENSOR) or amount.total > 1:
        part = "" if amount.looked >= amount.total else f" (looked at {amount.looked:,})"
        size = f"by up to {amount.absolute:.3g} (relative to its largest number: {amount.scaled or 0.0:.3g})"
        return f"{name} in {amount.count:,} of {_count(amount.total, 'number')}{part}, {amount.words or size}"
    if amount.words:
        return f"{name} is {place.second} instead of {place.first}, {amount.words}"
    return f"{name} is {place.second} instead of {place.first}"


def noise(figures: Sequence[Figure], files: Sequence[File]) -> list[str]:
    """Where the two undisturbed runs differ, and how the rehearsed one compares with that."""
    own = [figure for figure in figures if figure.standing is Standing.NOISE and not figure.is_measured]
    weights = [file for file in files if file.noisy_weights]
    parts = [
        f"{figure.name} from step {figure.first_noise} on (by up to {figure.relative_noise:.3g}, relative)"
        for figure in own[:SHOWN]
    ]
    parts += [f"{_count(file.noisy_weights, 'tensor')} of {file.path}" for file in weights[:SHOWN]]
    found = [
        f"two undisturbed runs differ already, in {listed(parts)}; set the seed of each random generator, and have "
        f"the libraries compute deterministically: then a rehearsal can prove it"
    ]
    far = [figure.name for figure in own if not figure.is_near]
    far += [
        f"{spot.place} of {file.path}"
        for file in weights
        for spot in file.having(Standing.NOISE)
        if spot.kind is Kind.WEIGHT and not spot.is_near
    ]
    if far:
        found.append(f"the rehearsed run differs more than they do in {_some(far, 'place')}: perhaps an interruption")
    return found


def not_compared(files: Sequence[File]) -> str:
    """What could not be compared, and why; empty if all was."""
    found = [file for file in files if file.standing is Standing.NOT_COMPARED]
    why = "; ".join(dict.fromkeys(file.note for file in found[:SHOWN]))
    return f"{_paths(found)} could not be compared: {why}" if found else ""


def sampled(files: Sequence[File]) -> list[str]:
    """Of which tensors only a part was looked at, in one line; none if all was."""
    found = [
        f"{size.looked:,} of {size.total:,} numbers of {spot.place}"
        for file in files
        for spot in file.places
        for size in (spot.amount, spot.noise)
        if size is not None and size.looked < size.total
    ]
    return [f"looked at {_some(found, 'tensor')}"] if found else []


def notes(figures: Sequence[Figure], files: Sequence[File]) -> Iterator[str]:
    """What is not a difference, and worth knowing."""
    measured = [figure.name for figure in figures if figure.standing is Standing.NOISE and figure.is_measured]
    if measured:
        yield f"times, rates and amounts of memory are not compared: {listed(measured)}"
    extra = [figure for figure in figures if figure.extra and not figure.is_measured]
    if extra:
        yield f"only the rehearsed run has {extra[0].name} at {_count(len(extra[0].extra), 'step')}"
    for file in files:
        if file.repeated:
            yield f"{file.path} has {_count(file.repeated, 'row')} more than in the undisturbed run"
        elif file.note and file.standing not in (Standing.MISSING, Standing.NOT_COMPARED) and not _is_older(file):
            yield f"{file.path}: {file.note}"
    yield from _sources(files)
    yield from _own_noise(files)
    if more := [file for file in files if file.standing is Standing.EXTRA]:
        yield f"only the rehearsed run has {_paths(more)}"
    if older := [file for file in files if _is_older(file)]:
        yield f"a newer save made files of older saves go: {_paths(older)}"


def _is_older(file: File) -> bool:
    return file.standing is Standing.NOTED and not file.form  # of what is there, the form is known


def _sources(files: Sequence[File]) -> Iterator[str]:
    found = [(file, place.place) for file in files for place in file.having(Standing.NOTED) if place.kind is Kind.OTHER]
    for name in dict.fromkeys(name for _, name in found):
        has = [file for file, place in found if place == name]
        yield f"{name} of {_paths(has)} names the save from which the program went on, so this is not compared"


def _own_noise(files: Sequence[File]) -> Iterator[str]:
    for file in [one for one in files if one.having(Standing.NOISE)][:SHOWN]:
        places = [place for place in file.having(Standing.NOISE) if place.kind is not Kind.WEIGHT]
        if places:
            names = listed([place.place or "all of it" for place in places[:SHOWN]])
            more = f" and {len(places) - SHOWN:,} more" if len(places) > SHOWN else ""
            yield f"the undisturbed runs differ in {names}{more} of {file.path}, so this is not compared"
    whole = [file for file in files if file.standing is Standing.NOISE and not file.form]
    if whole:
        yield f"only one of the undisturbed runs has {_paths(whole)}, so this is not compared"


def _figures(figures: Sequence[Figure]) -> str:
    names = [figure.name for figure in figures]
    shown = ["the loss" if name == "loss" else name for name in sorted(names, key=lambda name: (name != "loss", name))]
    return _some(shown, "figure")


def _paths(files: Sequence[File]) -> str:
    names = [file.path for file in files]
    return _some(names, "file")


def _some(names: Sequence[str], noun: str) -> str:
    """The first of `names`, and how many more there are."""
    more = len(names) - SHOWN
    return listed(names if more <= 0 else [*names[:SHOWN], f"{more:,} more {noun}{'' if more == 1 else 's'}"])


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
