"""Runs the user's steps with tensors that have no memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from holdfast_model.estimate.document import Peak
from holdfast_model.estimate.errors import EstimateError
from holdfast_model.estimate.without_memory import HINTS, without_memory
from holdfast_model.package.problem import Problem
from holdfast_model.user_code import place_of, words_of
from holdfast_train.errors import HoldfastTrainError

Made = tuple[nn.Module, Callable[[], object]]
"""What the user's function returns: the model, and a function that trains one step."""

STEPS: Final = 2  # the second has the state of the optimizer from its beginning on


class _FirstCall(BaseException):
    """The model is called for the first time. Not an Exception, so that the step does not catch it."""

    def __init__(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        self.arguments, self.named = arguments, named
        self.autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


def training(make: Callable[[], object]) -> Peak:
    """The peak of two steps of what `make` returns. EstimateError names the line that cannot be run."""
    with without_memory() as books, _user_code():
        with books:
            model, step = _checked(make())
        books.know(model)
        with books, as_on_gpu():
            for _ in range(STEPS):
                step()
        return books.peak()


def inference(make: Callable[[], object]) -> Peak | None:
    """The peak of one forward pass of the model in `make`, on what the step gives it first; None if it gives nothing.

    EstimateError names the line that cannot be run.
    """
    with without_memory() as books, _user_code():
        with books:
            model, step = _checked(make())
        call = _first_call(model, step)
        if call is None:
            return None
        books.know(model)
        model.eval()
        enabled, dtype = call.autocast
        with books, torch.no_grad(), torch.autocast("cpu", dtype, enabled=enabled):
            model(*call.arguments, **call.named)
        return books.peak()


def of_problem(problem: Problem, batch: int | None) -> Peak:
    """The peak of one forward pass. `batch`: the size of the first symbol; the other ones have their largest size."""
    sizes = {symbol: most for symbol, (_, most) in problem.dims.items()}
    if batch is not None and sizes:
        sizes["batch" if "batch" in sizes else next(iter(sizes))] = batch
    with without_memory() as books, _user_code():
        with books:
            model = problem.model()
            inputs = [
                torch.zeros([part if isinstance(part, int) else sizes[part] for part in tensor.shape],
                            dtype=getattr(torch, tensor.dtype))
                for tensor in problem.inputs.values()
            ]  # fmt: skip
        books.know(model)
        model.eval()
        with books, torch.no_grad():
            model(*inputs)
        return books.peak()


@contextmanager
def as_on_gpu() -> Iterator[None]:
    """Optimizers work as they do by default on a GPU: on all parameters at once, with temporary copies of them."""

    def prepare(optimizer: Optimizer, *_: object) -> None:
        for group in optimizer.param_groups:
            asked = group.get("fused") is not None or group.get("differentiable") or group.get("foreach") is not None
            if "foreach" in group and not asked:
                group["foreach"] = True

    handle = register_optimizer_step_pre_hook(prepare)
    try:
        yield
    finally:
        handle.remove()


def _checked(made: object) -> Made:
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module) and callable(made[1]):
        return made
    kind = f"a tuple of {len(made)}" if isinstance(made, tuple) else f"a {type(made).__name__}"
    raise EstimateError(
        f"the function of --training returns {kind}; it has to return two: the model (a torch.nn.Module), and a "
        f"function without arguments that trains one step"
    )


def _first_call(model: nn.Module, step: Callable[[], object]) -> _FirstCall | None:
    def stop(_: nn.Module, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        raise _FirstCall(arguments, named)

    handle = model.register_forward_pre_hook(stop, with_kwargs=True)
    try:
        step()
    except _FirstCall as call:
        return call.with_traceback(None)  # it would keep what the step has made
    finally:
        handle.remove()
    return None


@contextmanager
def _user_code() -> Iterator[None]:
    """Name the user's line in an error that comes from it."""
    try:
        yield
    except HoldfastTrainError:
        raise
    except SystemExit as error:
        raise EstimateError(f"{place_of(error)}: the function ends the program (sys.exit); leave it out") from error
    except Exception as error:
        hint = HINTS.get(type(error).__name__)
        raise EstimateError(f"{place_of(error)}: {hint}" if hint else words_of(error)) from error
