"""Packages whose models are a few operators of ONNX, made by hand: no torch, no training."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from holdfast_model.package import load
from holdfast_model.package.folder import file_entry, tensor_entries
from holdfast_model.package.problem import Tensor

KINDS = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8}
Nodes = Sequence[tuple[str, Sequence[str], str]]
"""Operator, inputs, output."""


def write_package(
    folder: Path,
    variants: Mapping[str, Nodes],
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
    dims: Mapping[str, tuple[int, int]],
    *,
    constants: Mapping[str, np.ndarray[Any, Any]] | None = None,
    **problem: Any,
) -> Path:
    """Write a package with one ONNX file for each variant. `problem`: more fields of it, such as classes."""
    entries = {}
    for name, nodes in variants.items():
        file = folder / name / "model.onnx"
        file.parent.mkdir(parents=True)
        graph = helper.make_graph(
            [helper.make_node(operator, list(taken), [made]) for operator, taken, made in nodes], "made",
            [helper.make_tensor_value_info(n, KINDS[t.dtype], list(t.shape)) for n, t in inputs.items()],
            [helper.make_tensor_value_info(n, KINDS[t.dtype], list(t.shape)) for n, t in outputs.items()],
            [numpy_helper.from_array(array, n) for n, array in (constants or {}).items()],
        )  # fmt: skip
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), file)
        entries[name] = {
            "runtime": "onnxruntime", "precision": "float32", "model": f"{name}/model.onnx",
            "files": {f"{name}/model.onnx": file_entry(file)}, "tested": {"passed": True},
        }  # fmt: skip
    document = {
        "v": 1,
        "name": folder.name,
        "problem": {
            "inputs": tensor_entries(inputs),
            "outputs": tensor_entries(outputs),
            "dims": {symbol: list(limits) for symbol, limits in dims.items()},
            **problem,
        },
        "tests": {"file": "tests.safetensors", "bytes": 0, "sha256": "0" * 64, "cases": []},
        "variants": entries,
    }
    (folder / "package.json").write_text(json.dumps(document))
    return folder


def colours(folder: Path, **variants: Nodes) -> Path:
    """A model that says which colour a picture of 2 x 2 pixels has: the means of its channels are the logits."""
    nodes = [("GlobalAveragePool", ["images"], "mean"), ("Flatten", ["mean"], "logits")]
    return write_package(
        folder, {"onnx": nodes, **variants}, {"images": Tensor("float32", ("batch", 3, 2, 2))},
        {"logits": Tensor("float32", ("batch", 3))}, {"batch": (1, 4)},
        classes=["red", "green", "blue"], pixels={"mean": ["0.5"], "std": ["0.5"]},
    )  # fmt: skip


def rows(folder: Path, *, least: int = 1, **variants: Nodes) -> Path:
    """A model whose logits are its input."""
    return write_package(
        folder, variants or {"onnx": [("Identity", ["x"], "logits")]}, {"x": Tensor("float32", ("batch", 3))},
        {"logits": Tensor("float32", ("batch", 3))}, {"batch": (least, 8)},
    )  # fmt: skip


def load_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations run models in the test's own process, which is faster by a second for each."""
    monkeypatch.setattr("holdfast_model.evaluation.measure.load", partial(load, isolated=False))


NOT_NUMBERS: Nodes = [("Neg", ["x"], "a"), ("Log", ["a"], "logits")]
"""Of positive numbers."""
