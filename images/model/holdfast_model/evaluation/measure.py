"""Run variants of packages over data, one after another, and score each."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from holdfast_model.evaluation.data import Batch, Data
from holdfast_model.evaluation.errors import EvaluationError
from holdfast_model.evaluation.scores import ClassScores, NotNumbersError, TokenScores
from holdfast_model.evaluation.task import Task, batch_limits, task_of
from holdfast_model.package.errors import PackageError
from holdfast_model.package.folder import Opened, open_package
from holdfast_model.package.loader import Model, fixed_dims, is_installed, is_runnable, load, may_run_code
from holdfast_model.package.problem import Arrays, Pixels
from holdfast_model.user_code import words_of

CALL_SECONDS: Final = 600.0
ALL: Final = "all"
Score = Callable[[Callable[[Arrays], Arrays], str], float]
"""A user's score: of a model, and the path of the data. Higher is better."""
Begin = Callable[[str, int | None], Callable[[int], None]]
"""Starts a progress bar: what is done, and of how many (None: not known). What it returns is called with more."""


@dataclass(frozen=True)
class Candidate:
    """A variant of a package. `name`: tells packages apart. `left_out`: why it is not run; empty if it is."""

    package: Opened
    name: str
    variant: str
    left_out: str = ""

    @property
    def bytes(self) -> int:
        """Of its files."""
        return sum(int(one["bytes"]) for one in self.package.variants[self.variant]["files"].values())


@dataclass
class Result:
    """What was found of a candidate. `why`: it has no score for this reason. `score`: higher is better.

    `call_seconds`: the median of a call with `call_samples` samples, with the way to its process and back.
    """

    candidate: Candidate
    why: str = ""
    score: float | None = None
    classes: ClassScores | None = None
    tokens: TokenScores | None = None
    load_seconds: float | None = None
    call_seconds: float | None = None
    call_samples: int = 0


class _Timed:
    """A model whose calls are timed. The first call is left out if there are others: a runtime prepares in it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._seconds: list[float] = []

    def __call__(self, inputs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        began = time.perf_counter()
        made = self._model(inputs)
        self._seconds.append(time.perf_counter() - began)
        return made

    def median(self) -> float | None:
        counted = self._seconds[1:] or self._seconds
        return statistics.median(counted) if counted else None


def candidates(folders: Sequence[Path], variants: Sequence[str]) -> list[Candidate]:
    """All variants that are asked for; `all` are those that can run here and contain no code.

    PackageError if a folder is not a package; EvaluationError if no variant can be run.
    """
    packages = [open_package(folder) for folder in folders]
    names = [str(package.document.get("name", package.folder.name)) for package in packages]
    if len(set(names)) < len(names):
        names = [str(package.folder) for package in packages]
    if len(set(names)) < len(names):
        raise EvaluationError("a package is named twice; name each package once")
    found: list[Candidate] = []
    for package, name in zip(packages, names, strict=True):
        for variant in variants:
            if variant == ALL:
                found += [Candidate(package, name, one, _left_out(entry)) for one, entry in package.variants.items()]
            elif variant in package.variants:
                found.append(Candidate(package, name, variant))
            else:
                raise EvaluationError(f"{package.folder} has no variant {variant!r}; it has: {_listed(package)}")
    found = list({(one.name, one.variant): one for one in found}.values())
    if all(one.left_out for one in found):
        reasons = "; ".join(f"{one.variant}: {one.left_out}" for one in found) or "there are none"
        raise EvaluationError(f"no variant can be run: {reasons}")
    return found


def _listed(package: Opened) -> str:
    return ", ".join(package.variants)


def _left_out(entry: Mapping[str, Any]) -> str:
    if entry["tested"] is None:
        return "a command made it, and nothing here runs it"
    if not is_runnable(entry):
        return "weights alone do not run"
    if may_run_code(entry):
        return "it may contain code: name it with --variant if you trust its maker"
    if not is_installed(entry):
        return f"{entry['runtime']} is not installed here"
    return "" if entry["tested"]["passed"] else "it did not pass its test"


def evaluate(
    found: Sequence[Candidate], data: Data, *, output: str | None = None, pixels: Pixels | None = None,
    begin: Begin = lambda _what, _total: lambda _count: None,
) -> list[Result]:  # fmt: skip
    """Each candidate that is not left out, on the same samples. EvaluationError if the data does not fit a package."""
    tasks = {one.name: task_of(one.package, output, pixels) for one in found if not one.left_out}
    if len({task.kind for task in tasks.values()}) > 1:
        raise EvaluationError("the packages do different things, so their scores cannot be compared")
    sizes = {name: data.fit(task) for name, task in tasks.items()}
    results = []
    for one in found:
        if one.left_out:
            continue
        advance = begin(f"{one.name} {one.variant}", len(data))
        results.append(_measure(one, data, tasks[one.name], sizes[one.name], advance))
    return results


def _measure(
    one: Candidate, data: Data, task: Task, sizes: Mapping[str, int], advance: Callable[[int], None]
) -> Result:
    scores = ClassScores(task) if task.kind == "classes" else TokenScores(task)
    dims = fixed_dims(one.package, one.package.variants[one.variant])
    result = Result(one)
    try:
        least, most = batch_limits(task, dims, sizes)
        began = time.perf_counter()
        with load(one.package.folder, one.variant, seconds=CALL_SECONDS) as model:
            result.load_seconds = time.perf_counter() - began
            timed = _Timed(model)
            for batch in data.batches(task, most):
                scores.add(batch, _answer(timed, batch, least, task))
                advance(len(batch.names))
            result.call_seconds, result.call_samples = timed.median(), min(most, len(data))
    except (PackageError, NotNumbersError) as error:
        result.why = (str(error).splitlines() or [type(error).__name__])[0]
        return result
    if isinstance(scores, ClassScores):
        result.classes = scores
        result.score = scores.accuracy if scores.samples else None
    else:
        result.tokens = scores
        result.score = -scores.mean_loss if scores.tokens else None
    if result.score is None:
        raise EvaluationError(f"{data.place} has nothing to score: no sample could be read, or no token has a target")
    return result


def _answer(model: _Timed, batch: Batch, least: int, task: Task) -> np.ndarray[Any, Any]:
    """The output of a batch. A batch with fewer samples than the model takes is filled with its last one."""
    inputs, count = batch.inputs, len(batch.names)
    if count < least:
        inputs = {
            name: np.concatenate([array, np.repeat(array[-1:], least - count, axis=0)])
            for name, array in inputs.items()
        }
    made = model(inputs)[task.output]
    if len(made) < count or made.shape[1:-1] != batch.labels.shape[1:]:
        raise PackageError(f"its output {task.output} has the shape {made.shape} for {count} samples")
    return made[:count]


def evaluate_by(
    score: Score, found: Sequence[Candidate], data: str, begin: Begin = lambda _what, _total: lambda _count: None
) -> list[Result]:
    """Each candidate that is not left out, by the user's own function. EvaluationError says what it raised."""
    results = []
    for one in found:
        if one.left_out:
            continue
        advance = begin(f"{one.name} {one.variant}", None)
        result = Result(one)
        results.append(result)
        try:
            began = time.perf_counter()
            with load(one.package.folder, one.variant, seconds=CALL_SECONDS) as model:
                result.load_seconds = time.perf_counter() - began
                timed = _Timed(model)
                result.score = _scored(score, timed, data)
                result.call_seconds = timed.median()
        except PackageError as error:
            result.why = str(error).splitlines()[0]
        else:
            if not np.isfinite(result.score):
                result.why, result.score = f"its score is {result.score}, which is not a finite number", None
        advance(1)
    return results


def _scored(score: Score, model: _Timed, data: str) -> float:
    try:
        return float(score(model, data))
    except PackageError:
        raise
    except Exception as error:
        raise EvaluationError(f"the function of --score raised an error: {words_of(error)}") from error
