"""Which of all results ships, and the differences between them. It becomes evaluation.json and evaluation.html."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from holdfast_model.evaluation.measure import Candidate, Result
from holdfast_model.evaluation.scores import ClassScores, Worst, interval

VERSION: Final = 1


@dataclass(frozen=True)
class Comparison:
    """`metric`: what a score is, such as accuracy. `samples`: None if a function of the user read the data.

    `damaged`: samples that could not be read, with the reason. `left_out`: candidates that were not run.
    """

    data: str
    metric: str
    samples: int | None
    results: Sequence[Result]
    max_drop: float
    damaged: Mapping[str, str]
    left_out: Sequence[Candidate] = ()

    @property
    def scored(self) -> list[Result]:
        """The best first."""
        return sorted(
            (one for one in self.results if one.score is not None),
            key=lambda one: (-float(one.score or 0), one.candidate.bytes, one.candidate.name, one.candidate.variant),
        )

    @property
    def failed(self) -> list[Result]:
        """Those without a score."""
        return [one for one in self.results if one.score is None]

    @property
    def best(self) -> Result | None:
        return next(iter(self.scored), None)

    @property
    def ships(self) -> Result | None:
        """The smallest of those whose score is at most `max_drop` below the best one."""
        good = [one for one in self.scored if self.drop(one) <= self.max_drop]
        return min(good, key=lambda one: (one.candidate.bytes, self.drop(one)), default=None)

    def drop(self, one: Result) -> float:
        """How much less than the best one it scores."""
        return float(self.best.score or 0) - float(one.score or 0) if self.best is not None else 0.0

    def drop_error(self, one: Result) -> float | None:
        """The drop is known to plus or minus this, with a probability of 95%: both models named the same samples."""
        if self.best is None or one is self.best or one.classes is None or self.best.classes is None:
            return None
        mine, best = np.concatenate(one.classes.right), np.concatenate(self.best.classes.right)
        difference = best.astype(float) - mine
        return float(1.96 * difference.std() / math.sqrt(len(difference)))

    def shown(self, one: Result) -> float:
        """The score as people know it: a loss is not negated."""
        return one.tokens.mean_loss if one.tokens is not None else float(one.score or 0)

    def as_json(self) -> dict[str, Any]:
        """evaluation.json."""
        ships = self.ships
        return {
            "v": VERSION,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "data": self.data,
            "metric": self.metric,
            "samples": self.samples,
            "maxDrop": self.max_drop,
            "ships": None if ships is None else {"package": ships.candidate.name, "variant": ships.candidate.variant},
            "results": [self._entry(one) for one in self.scored],
            "failed": [_named(one.candidate) | {"why": one.why} for one in self.failed],
            "leftOut": [_named(one) | {"why": one.left_out} for one in self.left_out],
            "damaged": {"count": len(self.damaged), "samples": dict(self.damaged)},
        }

    def _entry(self, one: Result) -> dict[str, Any]:
        said: dict[str, Any] = {
            **_named(one.candidate),
            "bytes": one.candidate.bytes,
            self.metric: _rounded(self.shown(one)),
            "drop": _rounded(self.drop(one)),
            "dropError": _rounded(self.drop_error(one)),
            "loadSeconds": _rounded(one.load_seconds),
            "callSeconds": _rounded(one.call_seconds),
            "callSamples": one.call_samples or None,
        }
        if one.tokens is not None:
            said |= {"perplexity": _rounded(one.tokens.perplexity), "tokens": one.tokens.tokens}
            said["accuracy"] = _rounded(one.tokens.accuracy)
        return said | (_class_entries(one.classes) if one.classes is not None else {})


def _class_entries(scores: ClassScores) -> dict[str, Any]:
    rows = scores.rows()
    return {
        "interval": [_rounded(one) for one in interval(scores.accuracy, scores.samples)],
        "top5": _rounded(scores.top),
        "loss": _rounded(scores.mean_loss),
        "calibrationError": _rounded(scores.calibration_error()),
        "calibration": [
            {"samples": count, "confidence": _rounded(confidence), "accuracy": _rounded(accuracy)}
            for count, confidence, accuracy in scores.bins()
        ],
        "classes": [
            {"name": row.name, "samples": row.count, "predicted": row.predicted,
             "precision": _rounded(row.precision), "recall": _rounded(row.recall)}
            for row in rows
        ],
        "confusion": [
            {"true": rows[label].name, "predicted": rows[named].name, "samples": count}
            for (label, named), count in sorted(scores.confusion.items())
        ],
        "worst": [_worst_entry(one, rows) for one in scores.worst()],
    }  # fmt: skip


def _worst_entry(one: Worst, rows: Sequence[Any]) -> dict[str, Any]:
    return {
        "sample": one.name, "true": rows[one.label].name, "predicted": rows[one.predicted].name,
        "confidence": _rounded(one.confidence), "loss": _rounded(one.loss),
    }  # fmt: skip


def _named(one: Candidate) -> dict[str, str]:
    return {"package": one.name, "variant": one.variant}


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
