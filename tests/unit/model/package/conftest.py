"""A package with one small ONNX model that was made by hand: y = 2x, for 1 to 8 rows of 3 numbers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from safetensors.numpy import save_file

from holdfast_model.package import Problem, Tensor
from holdfast_model.package.folder import TESTS, file_entry, tensor_entries

FLOAT = TensorProto.FLOAT


def doubling(path: Path, operator: str = "Add") -> None:
    """Write y = x + x, or another operator on x and x."""
    rows: list[str | int] = ["rows", 3]
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "x"], ["y"])], "double",
        [helper.make_tensor_value_info("x", FLOAT, rows)], [helper.make_tensor_value_info("y", FLOAT, rows)],
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


@pytest.fixture
def problem() -> Problem:
    """Of that model, whose torch module no test here makes."""
    return Problem(
        model=lambda: None,
        inputs={"x": Tensor("float32", ("rows", 3))},
        outputs={"y": Tensor("float32", ("rows", 3))},
        dims={"rows": (1, 8)},
        examples=[{"x": np.arange(6, dtype=np.float32).reshape(2, 3)}],
    )


@pytest.fixture
def make(tmp_path: Path, problem: Problem) -> Callable[..., Path]:
    """Write the package; other keys of package.json may be given."""

    def write(operator: str = "Add", **other: Any) -> Path:
        folder = tmp_path / "double"
        doubling(folder / "onnx" / "model.onnx", operator)
        x = problem.examples[0]["x"]
        save_file({"0/in/x": x, "0/out/y": 2 * x}, folder / TESTS)
        document = {
            "v": 1,
            "name": "double",
            "problem": {
                "inputs": tensor_entries(problem.inputs),
                "outputs": tensor_entries(problem.outputs),
                "dims": {"rows": [1, 8]},
            },
            "tests": {"file": TESTS, **file_entry(folder / TESTS), "cases": [{"dims": {"rows": 2}}]},
            "variants": {
                "onnx": {
                    "runtime": "onnxruntime", "precision": "float32", "model": "onnx/model.onnx", "tolerance": "0.0001",
                    "files": {"onnx/model.onnx": file_entry(folder / "onnx" / "model.onnx")},
                    "tested": {"passed": True},
                }
            },
            **other,
        }  # fmt: skip
        (folder / "package.json").write_text(json.dumps(document))
        return folder

    return write
