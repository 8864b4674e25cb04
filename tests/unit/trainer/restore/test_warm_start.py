"""A warm start: a real Run begins at step 0, with the model of another job and nothing else of it."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.trainer.runs import settle, verdict
from tests.support.trainer.stores import environment

from holdfast_train import Run
from holdfast_train.data.elastic_sampler import ElasticSampler
from holdfast_train.environment import Environment


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"file://{tmp_path}/prefix"


MODEL = {"resume_only": ("model",)}


class Training:
    """A model, its optimizer and a schedule. `weights`: those that the model has before the first step."""

    def __init__(self, weights: dict[str, Any] | None = None) -> None:
        torch.manual_seed(1)
        random.seed(1)
        self.model = torch.nn.Linear(3, 1)
        if weights is not None:
            self.model.load_state_dict(weights)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.weights: dict[str, Any] = {}  # after the last step
        self.run: Any = None

    def losses(self, where: Environment | None, goal: int) -> list[float]:
        """The losses of the steps up to `goal`, of which the last one is committed. Then the pod has to leave."""
        found = []
        with Run(model=self.model, optimizer=self.optimizer, schedule=self.schedule, environment=where) as self.run:
            for step in self.run.steps(100):
                loss = (self.model(torch.tensor([step % 3, 1.0, random.random()])) - step).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.schedule.step()
                found.append(loss.item())
                if step == goal - 1:
                    break
            if where is not None:
                self.run.advance()
                assert self.run.save()
                settle(self.run)
                self.run.left = True
        self.weights = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        return found


def tuned(uri: str, attempt: int = 1, /, **more: str) -> Environment:
    """The pod of another job, which starts from the checkpoints at `uri`."""
    other = {"HOLDFAST_JOB": "other", "HOLDFAST_JOB_UID": "u", "resume": uri}
    return environment(f"{uri}-tuned", attempt, **other, **more)


# Breaks if the optimizer, the schedule, the step or the random numbers of the checkpoint are restored too, or if the
# model is not.
def test_only_the_model_is_restored(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = Training()
    before.losses(environment(uri), 5)
    warm = Training()
    found = warm.losses(tuned(uri, **MODEL), 4)
    assert found == Training(before.weights).losses(None, 4)
    assert (warm.run.resumed_from, len(found)) == (None, 4)
    assert "warm start at step 0, with model of step 5 (" in capsys.readouterr().err
    full = Training()
    resumed = full.losses(tuned(f"{uri}-tuned"), 8)
    assert (full.run.resumed_from, len(resumed)) == (4, 4)
    again = Training()
    assert again.losses(tuned(uri, 2, **MODEL), 8) == resumed  # its own checkpoint counts more, and all of it
    assert again.run.resumed_from == 4


# Breaks if an attempt without a checkpoint of its own, after a lost one, begins without the model.
def test_an_attempt_that_was_lost_early_starts_warm_again(uri: str) -> None:
    before = Training()
    before.losses(environment(uri), 5)
    for attempt in (1, 2):
        model = Training().model
        with Run(model=model, environment=tuned(uri, attempt, **MODEL)) as run:
            assert run.resumed_from is None
            assert all(map(torch.equal, model.state_dict().values(), before.weights.values()))
            run.left = True


# Breaks if a name that is nowhere is passed over in silence: the training would start without it.
@pytest.mark.parametrize(
    ("only", "words"),
    [
        ("modle", "checkpoint.resume.only is modle, but the objects of the Run are 'model', 'ema', 'data'; name only"),
        ("model,ema", "has 'model', 'optimizer', 'schedule'; name only these"),
        ("data", "'data' counts steps, and a warm start begins at step 0; leave 'data' out"),
    ],
)
def test_names_that_cannot_be_restored(uri: str, tmp_path: Path, only: str, words: str) -> None:
    Training().losses(environment(uri), 2)
    other = {"resume_only": tuple(only.split(",")), "HOLDFAST_VERDICT_DIR": str(tmp_path)}
    objects = {"model": torch.nn.Linear(3, 1), "ema": torch.nn.Linear(3, 1), "data": ElasticSampler(100, batch=10)}
    if only == "data":
        with Run(data=objects["data"], environment=environment(f"{uri}-data")) as run:
            assert run.save()
            run.left = True
        uri = f"{uri}-data"
    with pytest.raises(SystemExit) as ended, Run(**objects, environment=tuned(uri, **other)):
        pytest.fail("entered")
    assert ended.value.code == 78
    found = verdict(tmp_path)
    assert (found["result"], found["reason"]) == ("misconfigured", "EnvironmentInvalid")
    assert words in found["message"]


# Breaks if a model with another head is told to go to another prefix, where the same would come again.
def test_a_model_with_other_shapes_says_what_to_leave_out(uri: str, tmp_path: Path) -> None:
    Training().losses(environment(uri), 2)
    with pytest.raises(SystemExit):
        Run(
            model=torch.nn.Linear(3, 7), environment=tuned(uri, HOLDFAST_VERDICT_DIR=str(tmp_path), **MODEL)
        ).__enter__()
    message = verdict(tmp_path)["message"]
    assert "size mismatch for weight" in message
    assert message.endswith("leave 'model' out of checkpoint.resume.only, or make it as that program made it")
