"""A trained model as a package: one folder with the model in several forms, each of which was tested.

A problem says what goes into the model and what comes out. From it and a checkpoint, `build` makes variants of the
model (safetensors, ONNX in three precisions, torch.export), runs each in a process of its own on test inputs, and
leaves out those whose outputs are wrong. `load` opens any variant with one call; it needs numpy and the runtime of the
variant.

Belongs here: problems, variants, their tests, and the loader for programs that use a package.
Does not belong here: checkpoints and their export (holdfast_train.exchange).
"""

from holdfast_model.package.errors import InputError, PackageError, ProblemError, WorkerError
from holdfast_model.package.loader import Model, load, placeholder
from holdfast_model.package.problem import Arrays, Call, Pixels, Problem, Score, Tensor

__all__ = [
    "Arrays",
    "Call",
    "InputError",
    "Model",
    "PackageError",
    "Pixels",
    "Problem",
    "ProblemError",
    "Score",
    "Tensor",
    "WorkerError",
    "load",
    "placeholder",
]
