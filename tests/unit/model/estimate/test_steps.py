"""Steps without memory, compared with what torch's real allocator does; and what cannot be run without values."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.profiler import ProfilerActivity, profile

from holdfast_model.estimate import without_memory as private
from holdfast_model.estimate.document import Peak
from holdfast_model.estimate.errors import EstimateError, NotKnownError
from holdfast_model.estimate.steps import as_on_gpu, inference, of_problem, training
from holdfast_train.examples import language_model as lm
from holdfast_train.examples import vision_transformer as vit

SMALL_LM = ("--layers=2", "--dim=128", "--context=64")
Made = tuple[nn.Module, Callable[[], object]]


def allocated(run: Callable[[], object]) -> int:
    """The peak of the CPU allocator, from the profiler's memory events."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        kept = run()
    results: Any = seen.profiler
    now = peak = 0
    for event in sorted(results.kineto_results.events(), key=lambda event: int(event.start_ns())):
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    del kept
    return peak


def really(make: Callable[[], Any]) -> int:
    """The peak of two steps that are really run, with optimizers as on a GPU."""

    def run() -> object:
        model, step = make()
        with as_on_gpu():
            step()
            step()
        return model

    return allocated(run)


# Breaks with a version of torch whose private API counts otherwise. The bar is 5%.
@pytest.mark.parametrize(
    ("program", "options", "batch"),
    [
        (lm, SMALL_LM, 8),
        (lm, (*SMALL_LM, "--layers=1", "--precision=bf16"), 8),
        (lm, (*SMALL_LM, "--layers=1", "--accumulate=2"), 8),  # the model is called twice in a step
        (vit, ("--layers=2",), 8),
        (vit, ("--layers=1", "--dim=192"), 1),  # the temporary copies of the optimizer make the peak
    ],
)
def test_the_peak_is_that_of_a_real_allocator(program: Any, options: tuple[str, ...], batch: int) -> None:
    def make() -> Any:
        return program.training(*options, batch=batch)

    assert training(make).total == pytest.approx(really(make), rel=0.05)


# Breaks if the forward pass alone keeps what only training needs.
@pytest.mark.parametrize(("program", "options"), [(lm, SMALL_LM), (vit, ())])
def test_inference_is_that_of_a_real_allocator(program: Any, options: tuple[str, ...]) -> None:
    def run() -> object:
        model, _ = program.training(*options, batch=8)
        shape = (8, 3, 32, 32) if program is vit else (8, 64)
        with torch.no_grad():
            model.eval()(torch.zeros(shape, dtype=torch.float32 if program is vit else torch.int64))
        return model

    found = inference(lambda: program.training(*options, batch=8))
    assert found is not None
    assert found.total == pytest.approx(allocated(run), rel=0.05)
    assert (found.gradients, found.optimizer) == (0, 0)


# Breaks if inference is computed as in training, where dropout keeps a mask of each activation.
def test_inference_is_not_training() -> None:
    modes: list[bool] = []
    model, step = net()
    model.register_forward_hook(lambda module, *_: modes.append(module.training))
    assert inference(lambda: (model, step)) is not None
    assert modes == [False]


def test_a_problem_says_enough_for_inference() -> None:
    found = of_problem(vit.problem(), 8)
    also = inference(lambda: vit.training(batch=8))
    assert also is not None
    assert found.total == pytest.approx(also.total, rel=0.01)
    assert of_problem(vit.problem(), None).total > 4 * found.activations  # the largest batch, 64


class Net(nn.Module):
    """Two layers with one weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(F.relu(self.first(x)))
        return out


def net(width: int = 16, body: Callable[[torch.Tensor, nn.Module], object] = lambda loss, model: None) -> Made:
    model = Net(width).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        loss = model(torch.zeros(4, width, dtype=torch.bfloat16)).float().square().mean()
        body(loss, model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, step


# Breaks if anything is allocated or computed: this weight has 200 GB. Or if a weight that two layers share counts twice
# after `.to`, which torch refuses on tensors without memory.
def test_a_model_that_fits_into_no_memory() -> None:
    width = 320_000
    weight = 2 * width**2
    found = training(lambda: net(width))
    assert found.parameters == weight
    assert found.total > 4 * weight


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (lambda loss, model: loss.item(), "leave it out of the step (such as loss.item()"),
        (lambda loss, model: float(loss.detach()), "it needs the value of a tensor"),
        (lambda loss, model: 1 if loss > 1 else 2, "an `if` on a tensor"),
        (lambda loss, model: f"{loss:.4f}", "it needs the value of a tensor"),
        (lambda loss, model: loss.expand(3)[loss.expand(3) > 1], "the size of its result depends on values"),
        (lambda loss, model: loss.detach().numpy(), "leave it out of the step"),
        (lambda loss, model: (loss.backward(retain_graph=True),
                              nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)),
         "it needs the value of a tensor"),
        (lambda loss, model: model(torch.zeros(4, 3, dtype=torch.bfloat16)), "RuntimeError"),
        (lambda loss, model: {}["nothing"], "KeyError: 'nothing'"),
    ],
    ids=("item", "float", "if", "format", "index", "numpy", "clip", "shapes", "key"),
)  # fmt: skip
def test_what_needs_values_is_named_with_its_line(body: Any, why: str) -> None:
    with pytest.raises(EstimateError) as found:
        training(lambda: net(body=body))
    said = str(found.value)
    assert said.startswith(f"{__file__}, line ")
    assert why in said
    assert "\n" not in said


@pytest.mark.parametrize("made", [None, 5, (nn.Linear(1, 1),), (nn.Linear(1, 1), 5), ("model", print)])
def test_a_function_that_returns_something_else(made: Any) -> None:
    with pytest.raises(EstimateError, match="it has to return two: the model"):
        training(lambda: made)


def test_a_step_that_does_not_call_the_model_says_nothing_of_inference() -> None:
    assert inference(lambda: (nn.Linear(1, 1), lambda: None)) is None


# Breaks if hooks or patches stay, and change a training in the same process; also after an error.
def test_nothing_stays() -> None:
    swap = torch.utils.swap_tensors
    with pytest.raises(EstimateError):
        training(lambda: net(body=lambda loss, model: loss.item()))
    training(net)
    inference(net)
    assert torch.utils.swap_tensors is swap
    assert not logging.getLogger("torch._subclasses.fake_tensor").disabled
    model = nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    assert model.weight.sum().item() != 0
    assert optimizer.param_groups[0]["foreach"] is None


# Breaks if another torch ends in an error of its own, instead of words.
@pytest.mark.parametrize("missing", ["MemTracker", "FakeTensorMode"])
def test_a_torch_without_the_private_api(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    import torch._subclasses.fake_tensor as fake
    import torch.distributed._tools.mem_tracker as books

    monkeypatch.delattr(books if missing == "MemTracker" else fake, missing)
    with pytest.raises(NotKnownError, match=f"does not have what an estimate needs .*{missing}"):
        training(net)


# Breaks if torch names a kind of memory otherwise, and the user reads of a KeyError in a line of the program.
def test_a_torch_with_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed._tools.mem_tracker as books

    def snapshot(*_: object) -> dict[torch.device, dict[str, int]]:
        return {torch.device("cpu"): {"Weights": 5, "Total": 5}}

    monkeypatch.setattr(books.MemTracker, "get_tracker_snapshot", snapshot)
    with pytest.raises(NotKnownError, match="no kind of memory is named 'Parameter'"):
        training(net)


def test_a_step_without_tensors() -> None:
    assert training(lambda: (nn.Identity(), lambda: None)) == Peak(0, 0, 0, 0)


# Breaks if a kind of memory has another name in torch, and its bytes move to another column without a word.
def test_what_the_peak_consists_of() -> None:
    found = training(lambda: lm.training(*SMALL_LM, batch=8))
    model, _ = lm.training(*SMALL_LM, batch=8)
    parameters = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    assert found.parameters == parameters
    assert found.optimizer == pytest.approx(2 * sum(p.nbytes for p in model.parameters()), rel=0.01)
    assert found.activations > found.gradients >= 0
    assert isinstance(found, Peak)
    assert ".".join(torch.__version__.split(".")[:2]) == private.TESTED
