"""Run a variant on the test inputs, and judge what it answers."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from holdfast_model.package.errors import PackageError
from holdfast_model.package.loader import Model
from holdfast_model.package.problem import Arrays, Call, Score
from holdfast_model.user_code import called
from holdfast_train.errors import StateError

LEAST_AGREEMENT: Final = 0.95
"""Of a variant without a tolerance, if the problem has no score."""


@dataclass(frozen=True)
class Bar:
    """What a variant has to reach. `tolerance`: of the largest difference; None: the score or the agreement decides.

    `reference`: the score of the model in torch.
    """

    tolerance: float | None
    score: Score | None = None
    reference: float | None = None


@dataclass(frozen=True)
class Assessment:
    """What a test found. `largest`: the largest difference over the largest output, of all cases and outputs.

    `agreement`: the share of rows whose largest entry is at the same place; of an output with one column, the cosine.
    `why`: why it did not pass; empty if it did.
    """

    passed: bool
    largest: float | None = None
    agreement: float | None = None
    score: float | None = None
    load_seconds: float | None = None
    why: str = ""

    def entry(self) -> dict[str, Any]:
        """As in package.json: numbers are decimal strings."""
        said: dict[str, Any] = {"passed": self.passed}
        for name, value in (
            ("largest", self.largest), ("agreement", self.agreement), ("score", self.score),
            ("loadSeconds", self.load_seconds),
        ):  # fmt: skip
            if value is not None:
                said[name] = f"{value:.4g}" if name == "largest" else f"{value:.4f}"
        return said | ({"why": self.why} if self.why else {})


def compare(made: Arrays, expected: Arrays) -> tuple[float, list[float]]:
    """The largest relative difference, and the agreement of each output of floating-point numbers.

    The difference is infinite if something is not a number that should be one.
    """
    largest, agreement = 0.0, []
    for name, wanted in expected.items():
        a, b = made[name].astype(np.float64), wanted.astype(np.float64)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            largest = float("inf")
            continue
        finite = np.isfinite(b)
        scale = float(np.abs(b[finite]).max(initial=0.0))
        difference = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
        if difference:
            largest = max(largest, difference / scale if scale else float("inf"))
        if wanted.dtype.kind == "f" and wanted.size:
            several = wanted.ndim > 0 and wanted.shape[-1] > 1
            agreement.append(float(np.mean(a.argmax(-1) == b.argmax(-1))) if several else _cosine(a, b))
    return largest, agreement


def _cosine(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    product = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    return float(np.vdot(a, b)) / product if product else float(np.array_equal(a, b))


def run_cases(model: Model, cases: Sequence[Arrays], expected: Sequence[Arrays]) -> tuple[float, float | None]:
    """The largest difference, and the mean agreement, over all cases. PackageError if the model refuses one."""
    largest, agreements = 0.0, []
    for inputs, wanted in zip(cases, expected, strict=True):
        difference, agreement = compare(model(inputs), wanted)
        largest = max(largest, difference)
        agreements += agreement
    return largest, float(np.mean(agreements)) if agreements else None


def measured(score: Score, model: Call) -> float:
    """What the user's score says of a model. StateError with the line that failed."""
    return called(f"the score {score.name}", lambda: float(score.measure(model)))


def judge(open_model: Callable[[], Model], cases: Sequence[Arrays], expected: Sequence[Arrays], bar: Bar) -> Assessment:
    """Open a variant, run all cases and the score, and decide."""
    began = time.monotonic()
    try:
        with open_model() as model:
            took = time.monotonic() - began
            largest, agreement = run_cases(model, cases, expected)
            scored = measured(bar.score, model) if bar.score else None
    except (PackageError, StateError) as error:
        return Assessment(passed=False, why=str(error).splitlines()[0])
    why = _why(bar, largest, agreement, scored)
    return Assessment(not why, largest, agreement, scored, took, why)


def _why(bar: Bar, largest: float, agreement: float | None, scored: float | None) -> str:
    if not np.isfinite(largest):
        return "an output is not a number where the model in torch has one, or differs where it is 0"
    if bar.tolerance is not None and largest > bar.tolerance:
        return f"outputs differ by {largest:.2g} of the largest one; allowed: {bar.tolerance:.2g}"
    if bar.score is not None and bar.reference is not None and scored is not None:
        if not bar.reference - scored <= bar.score.max_drop:  # also if it is not a number
            may = f"it may drop by {bar.score.max_drop:g}"
            return f"{bar.score.name} is {scored:.4f}, and {bar.reference:.4f} in torch; {may}"
    elif bar.tolerance is None and (agreement is None or agreement < LEAST_AGREEMENT):
        found = "none can be compared" if agreement is None else f"they agree by {agreement:.1%}"
        return f"the problem has no score, so outputs have to agree by {LEAST_AGREEMENT:.0%}: {found}"
    return ""
