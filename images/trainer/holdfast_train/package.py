"""Another name of `holdfast_model.package`, for programs that know packages under this one. It needs holdfast-model."""

try:
    from holdfast_model.package import (
        Arrays,
        Call,
        InputError,
        Model,
        PackageError,
        Pixels,
        Problem,
        ProblemError,
        Score,
        Tensor,
        WorkerError,
        load,
        placeholder,
    )
except ModuleNotFoundError as error:
    if error.name != "holdfast_model":
        raise
    message = "holdfast_train.package is a part of holdfast-model, which is not installed: pip install holdfast-model"
    raise ModuleNotFoundError(message, name=error.name) from error

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
