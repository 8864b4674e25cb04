"""What is refused, and how steps are counted. Trainings are in tests/integration/trainer/frameworks."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.state import AcceleratorState, GradientState
from tests.support.trainer.stores import variables
from torch.optim import SGD
from torch.utils.data import DataLoader, IterableDataset

from holdfast_train import Values
from holdfast_train.errors import StateError
from holdfast_train.frameworks.accelerate import AcceleratedRun


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([1])

    def __len__(self) -> int:
        return 1


@pytest.fixture(autouse=True)
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in variables(f"file://{tmp_path}/prefix").items():
        monkeypatch.setenv(name, value)
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def prepared(data: Any, **options: Any) -> tuple[Accelerator, Any]:
    accelerator = Accelerator(cpu=True, **options)
    model = torch.nn.Linear(1, 1)
    _, _, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters()), DataLoader(data, batch_size=2))
    return accelerator, loader


# Breaks if a loader without a known position is taken.
@pytest.mark.parametrize(
    ("data", "options"),
    [
        (Endless(), {}),
        ([1, 2], {"dataloader_config": DataLoaderConfiguration(dispatch_batches=True)}),
    ],
    ids=["iterable", "dispatched"],
)
def test_a_loader_without_a_position_is_refused(data: Any, options: dict[str, Any]) -> None:
    accelerator, loader = prepared(data, **options)
    with pytest.raises(StateError, match=r"DataLoaderDispatcher.*__getitem__"):
        AcceleratedRun(accelerator, loader)


# Breaks if what the adapter adds to a Run is taken for objects of the program, which may contain a schedule.
@pytest.mark.parametrize("is_given", [False, True])
def test_a_schedule_that_was_not_prepared_is_told(capsys: pytest.CaptureFixture[str], is_given: bool) -> None:
    accelerator, loader = prepared([1, 2])
    schedule = torch.optim.lr_scheduler.LinearLR(accelerator._optimizers[0].optimizer)
    with AcceleratedRun(accelerator, loader, **({"schedule": schedule} if is_given else {})) as run:
        for _ in run.epochs(1):
            for _batch in run.batches():
                run.report(loss=1.0)
    assert ("has a schedule that Run was not given" in capsys.readouterr().err) is not is_given


def test_a_training_with_deepspeed_is_refused() -> None:
    accelerator, loader = prepared([1, 2])
    accelerator.state.distributed_type = "DEEPSPEED"
    with pytest.raises(StateError, match="DEEPSPEED"):
        AcceleratedRun(accelerator, loader)


# Breaks if what the hooks of a program save is in no checkpoint, and nobody says so.
def test_a_hook_that_saves_is_refused() -> None:
    accelerator, loader = prepared([1, 2])

    def save_ema(models: list[Any], weights: list[Any], folder: str) -> None:
        """Averaged weights, as the scripts of diffusers save them."""

    hook = accelerator.register_save_state_pre_hook(save_ema)
    with pytest.raises(StateError, match=r"given save_ema: .*AcceleratedRun\(accelerator, loader, ema=ema\)"):
        AcceleratedRun(accelerator, loader)
    hook.remove()
    AcceleratedRun(accelerator, loader)


# Breaks if what the accelerator is given after AcceleratedRun was made is in no checkpoint, and nobody says so.
@pytest.mark.parametrize(
    ("give", "said"),
    [
        (lambda accelerator: accelerator.register_save_state_pre_hook(print), "was given print"),
        (lambda accelerator: accelerator.register_for_checkpointing(Values(seen=0)), "registered of .* came after"),
        (
            lambda accelerator: accelerator.prepare(SGD(torch.nn.Linear(1, 1).parameters())),
            "optimizer1 of .* came after",
        ),
    ],
)
def test_what_comes_too_late_is_refused(give: Callable[[Any], Any], said: str) -> None:
    accelerator, loader = prepared([1, 2])
    run = AcceleratedRun(accelerator, loader)
    give(accelerator)
    with run, pytest.raises(StateError, match=said):
        next(run.epochs(1))


# Breaks if an object of the program replaces one that accelerate has prepared.
def test_a_name_that_is_taken_is_refused() -> None:
    accelerator, loader = prepared([1, 2])
    with pytest.raises(StateError, match=r"'model'.*choose another name"):
        AcceleratedRun(accelerator, loader, model=torch.nn.Linear(1, 1))


# Breaks if an epoch is read twice: the position could not tell the two apart.
def test_an_epoch_is_read_once() -> None:
    accelerator, loader = prepared([1, 2])
    with pytest.raises(SystemExit), AcceleratedRun(accelerator, loader) as run:
        for _ in run.epochs(1):
            list(run.batches())
            with pytest.raises(StateError, match="twice in one epoch"):
                list(run.batches())
            raise SystemExit(1)


# Breaks if a batch that does not end a step is counted as one, or the end of an epoch is not a step.
@pytest.mark.parametrize(("across", "steps"), [(False, 4), (True, 3)])
def test_a_step_is_a_step_of_the_optimizer(across: bool, steps: int) -> None:
    from accelerate.utils import GradientAccumulationPlugin

    plugin = GradientAccumulationPlugin(num_steps=2, sync_with_dataloader=not across)
    accelerator, loader = prepared([1, 2, 3, 4, 5], gradient_accumulation_plugin=plugin)
    with AcceleratedRun(accelerator, loader) as run:
        for _ in run.epochs(2):
            for _batch in run.batches():
                with accelerator.accumulate():
                    run.report(loss=1.0)
    assert run.step == steps
