"""Variants that are run by the real runtime, in processes of their own."""

from pathlib import Path

import numpy as np
import pytest
from tests.support.packages import NOT_NUMBERS, load_here, rows, write_package

from holdfast_model.evaluation.comparison import Comparison
from holdfast_model.evaluation.data import ArrayData
from holdfast_model.evaluation.errors import EvaluationError
from holdfast_model.evaluation.measure import candidates, evaluate, evaluate_by
from holdfast_model.package import PackageError, Tensor

X = np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1, 2, 0, 1, 2, 0]] + 1
LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 1])  # the last one is not what the model says
GOOD = [("Identity", ["x"], "logits")]
BAD = [("Neg", ["x"], "logits")]
LONG = [("Neg", ["x"], "a"), ("Neg", ["a"], "b"), ("Neg", ["b"], "c"), ("Neg", ["c"], "logits")]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    load_here(monkeypatch)


def data() -> ArrayData:
    return ArrayData("data.npz", {"x": X, "labels": LABELS})


# Breaks if the smallest or the best one ships in every case, or if a variant without a score can ship.
def test_the_smallest_of_the_good_variants_ships(tmp_path: Path) -> None:
    folder = rows(tmp_path / "m", onnx=LONG, small=GOOD, wrong=BAD, broken=NOT_NUMBERS)
    results = evaluate(candidates([folder], ["all"]), data())
    found = Comparison("data.npz", "accuracy", 10, results, 0.01, {})
    assert [one.candidate.variant for one in found.scored] == ["small", "onnx", "wrong"]
    assert found.ships is found.scored[0]
    assert [found.drop(one) for one in found.scored] == pytest.approx([0, 0, 0.8])
    assert found.drop_error(found.scored[2]) == pytest.approx(1.96 * 0.6 / 10**0.5)
    assert found.failed[0].why.startswith("its output for sample 0 is not a number")
    said = found.as_json()
    assert said["ships"] == {"package": "m", "variant": "small"}
    assert said["results"][0]["confusion"][1] == {"true": "1", "predicted": "0", "samples": 1}
    assert said["failed"][0]["variant"] == "broken"
    assert found.scored[0].call_seconds
    assert Comparison("x", "accuracy", 10, results, 0.95, {}).ships in found.scored


# Breaks if the last batch of a model that takes 4 samples at least is refused, or if what fills it is scored.
def test_a_batch_with_too_few_samples_is_filled(tmp_path: Path, here: None) -> None:
    (one,) = evaluate(candidates([rows(tmp_path / "m", least=7)], ["onnx"]), data())
    assert one.classes is not None
    assert (one.classes.samples, one.classes.accuracy) == (10, 0.9)


def test_two_packages_and_their_failures(tmp_path: Path, here: None) -> None:
    folders = [rows(tmp_path / name) for name in ("a", "b")]
    (folders[0] / "onnx" / "model.onnx").unlink()
    first, second = evaluate(candidates(folders, ["all"]), data())
    assert "lacks the file onnx/model.onnx" in first.why
    assert second.score == 0.9
    with pytest.raises(PackageError, match=r"is not a package: it has no package\.json"):
        candidates([tmp_path / "none"], ["all"])
    with pytest.raises(EvaluationError, match="has no variant 'tflite'; it has: onnx"):
        candidates(folders, ["tflite"])
    with pytest.raises(EvaluationError, match="a package is named twice"):
        candidates([folders[0], folders[0]], ["all"])


def test_an_own_score(tmp_path: Path, here: None) -> None:
    found = candidates([rows(tmp_path / "m", onnx=GOOD, wrong=BAD)], ["all"])
    good, bad = evaluate_by(lambda model, path: float(model({"x": X[:1]})["logits"][0, 0]) * len(path), found, "abc")
    assert (good.score, bad.score) == (6, -6)
    (nan, _) = evaluate_by(lambda *_: float("nan"), found, "abc")
    assert nan.why == "its score is nan, which is not a finite number"
    with pytest.raises(EvaluationError, match=r"--score raised an error: .*test_measure\.py, line .*KeyError: 'none'"):
        evaluate_by(lambda model, _: model({"x": X[:1]})["none"][0], found, "abc")
    refused = evaluate_by(lambda model, _: model({"x": X[:1, :2]})["logits"][0], found, "abc")
    assert "x has the shape (1, 2)" in refused[0].why


# Breaks if a model of tokens is taken for one of classes, or if its loss ranks the worse variant first.
def test_tokens(tmp_path: Path, here: None) -> None:
    sure, unsure = [[0.0, 9.0, 0.0], [0.0, 0.0, 9.0], [9.0, 0.0, 0.0]], np.zeros((3, 3))
    tables = {"table": np.array(sure, np.float32), "flat": unsure.astype(np.float32)}
    folder = write_package(
        tmp_path / "lm",
        {"onnx": [("Gather", ["table", "tokens"], "logits")], "flat": [("Gather", ["flat", "tokens"], "logits")]},
        {"tokens": Tensor("int64", ("batch", "time"))}, {"logits": Tensor("float32", ("batch", "time", 3))},
        {"batch": (1, 2), "time": (1, 8)}, constants=tables,
    )  # fmt: skip
    windows = ArrayData("w.npz", {"tokens": np.arange(15).reshape(3, 5) % 3})
    found = Comparison("w.npz", "loss", 3, evaluate(candidates([folder], ["all"]), windows), 0.01, {})
    best, flat = found.scored
    assert (best.candidate.variant, flat.candidate.variant) == ("onnx", "flat")
    assert best.tokens is not None
    assert (best.tokens.tokens, best.tokens.accuracy) == (12, 1.0)
    assert found.as_json()["results"][1]["perplexity"] == pytest.approx(3)
    assert found.drop(flat) == pytest.approx(np.log(3), abs=1e-3)


def test_what_cannot_be_scored(tmp_path: Path, here: None) -> None:
    folder = write_package(
        tmp_path / "m", {"onnx": [("Identity", ["x"], "y"), ("Identity", ["x"], "z")]},
        {"x": Tensor("float32", ("batch", 3))},
        {"y": Tensor("float32", ("batch", 3)), "z": Tensor("float32", ("batch", 3))}, {"batch": (1, 4)},
    )  # fmt: skip
    with pytest.raises(EvaluationError, match="2 of its outputs are: name one with --output"):
        evaluate(candidates([folder], ["all"]), data())
    assert evaluate(candidates([folder], ["all"]), data(), output="z")[0].score == 0.9
    with pytest.raises(EvaluationError, match="has no output 'w'; it has: y, z"):
        evaluate(candidates([folder], ["all"]), data(), output="w")
