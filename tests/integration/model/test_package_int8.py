"""Int8 of the reference language model: with onnxruntime's defaults it is useless, and the package refuses it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from holdfast_model.package import Call, Problem, Score, Tensor
from holdfast_model.package import variants as variants_module
from holdfast_model.package.build import build
from holdfast_model.package.record import Origin
from holdfast_train.examples.byte_data import ByteData
from holdfast_train.examples.byte_data import build as text
from holdfast_train.examples.language_model import LanguageModel, Shape

LENGTH = 64


def trained(data: ByteData, steps: int) -> LanguageModel:
    torch.manual_seed(0)
    model = LanguageModel(Shape(dim=128, layers=4, heads=4, context=LENGTH))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        windows = torch.from_numpy(data.batch(step))
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def lm_problem(windows: Sequence[np.ndarray], model: LanguageModel) -> Problem:
    def nats(call: Call) -> float:
        found = []
        for one in windows[:4]:
            logits = torch.from_numpy(call({"tokens": one[:, :-1]})["logits"])
            found.append(F.cross_entropy(logits.flatten(0, 1), torch.from_numpy(one[:, 1:]).flatten()).item())
        return -float(np.mean(found))

    return Problem(
        model=lambda: model,
        inputs={"tokens": Tensor("int64", ("batch", "time"))},
        outputs={"logits": Tensor("float32", ("batch", "time", 256))},
        dims={"batch": (1, 8), "time": (1, LENGTH)},
        examples=[{"tokens": windows[0][:4, :32]}],
        calibration=lambda: [{"tokens": one[:, :-1]} for one in windows[4:]],
        score=Score("nats a byte, negated", nats, max_drop=0.01),
    )


# Breaks if a static int8 model is believed because its file loads and its shapes are right.
@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_the_default_of_static_int8_is_refused_and_ours_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = ByteData(text(), length=LENGTH, batch=8, seed=1)
    model = trained(data, 400)
    problem = lm_problem([data.batch(10_000 + number) for number in range(10)], model)
    origin = Origin("uid", 400, "file:///runs/manifests/400.json", "00")
    ours = build(problem, model, origin, tmp_path / "ours", variants=["onnx", "onnx-int8"])
    assert ours.failed == {}
    monkeypatch.setattr(variants_module, "STATIC_OPERATORS", ())  # none named: all of them, as by default
    theirs = build(problem, model, origin, tmp_path / "theirs", variants=["onnx-int8"])
    assert "nats a byte, negated is" in theirs.failed["onnx-int8"]
