"""The reference trainer: its model is correct, and a resumed run equals the uninterrupted one bit for bit."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.trainer.inside import give_notice
from tests.support.trainer.stores import environment

from holdfast_train import Run
from holdfast_train.environment import Environment
from holdfast_train.examples import language_model as lm

SMALL = ["--dim=32", "--layers=2", "--heads=2", "--context=16", "--batch=4", "--warmup=5", "--steps=40"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def train(text: Path, where: Environment | None, stop: int | None = None) -> tuple[list[float], Run]:
    options = lm.parse([*SMALL, "--data", str(text)])
    trainer = lm.Trainer(options, torch.device("cpu"), 0, 1)
    losses: list[float] = []
    with Run(
        model=trainer.model,
        optimizer=trainer.optimizer,
        schedule=trainer.schedule,
        data=trainer.data,
        environment=where,
    ) as run:
        for step in run.steps(options.steps):
            losses.append(trainer.step(step).item() + torch.rand(()).item())
            if step == stop:
                give_notice(run, 20, "a test")
    return losses, run


@pytest.mark.training
def test_resumed_losses_equal_uninterrupted_ones(text: Path, tmp_path: Path) -> None:
    """Bit for bit: weights, AdamW's moments, schedule, data position and torch's generator all came back."""
    whole, _ = train(text, None)
    uri = f"file://{tmp_path}/prefix"
    first, left = train(text, environment(uri, 1), stop=16)
    torch.manual_seed(12345)
    second, done = train(text, environment(uri, 2), stop=None)
    assert left.step == done.resumed_from == 17
    assert first + second == whole
    assert np.mean(whole[-5:]) < np.mean(whole[:5]) - 0.5


def test_default_size_is_a_few_million() -> None:
    model = lm.LanguageModel(lm.Shape())
    assert 2.5e6 < sum(p.numel() for p in model.parameters()) < 4e6


def test_no_position_sees_a_later_one() -> None:
    model = lm.LanguageModel(lm.Shape(32, 2, 2, 16))
    tokens = torch.randint(256, (1, 16))
    changed = tokens.clone()
    changed[0, 9] = (changed[0, 9] + 1) % 256
    before, after = model(tokens), model(changed)
    assert torch.equal(before[0, :9], after[0, :9])
    assert not torch.equal(before[0, 9:], after[0, 9:])


def test_rotary_turns_and_keeps_relative_positions() -> None:
    rotary = lm.Rotary(8, 32)
    q, k = torch.randn(1, 1, 1, 8).expand(1, 1, 32, 8), torch.randn(1, 1, 1, 8).expand(1, 1, 32, 8)
    turned_q, turned_k = rotary(q), rotary(k)
    assert torch.allclose(turned_q.norm(dim=-1), q.norm(dim=-1), atol=1e-5)
    scores = (turned_q @ turned_k.transpose(-1, -2))[0, 0]
    assert torch.allclose(scores[5, 2], scores[25, 22], atol=1e-4)
    assert torch.equal(turned_q[..., 0, :], q[..., 0, :])


def test_first_loss_is_that_of_guessing(text: Path) -> None:
    losses, _ = train(text, None)
    assert losses[0] - 1 < math.log(256) < losses[0] + 0.1


def test_learning_rate() -> None:
    factors = [lm.cosine(step, 10, 100) for step in range(101)]
    assert factors[0] == pytest.approx(0.1)
    assert max(factors) == factors[10] == pytest.approx(1.0)
    assert factors[100] == pytest.approx(0.1)
    assert lm.cosine(1000, 10, 100) == pytest.approx(0.1)


def test_only_matrices_decay() -> None:
    optimizer = lm.make_optimizer(lm.LanguageModel(lm.Shape(32, 1, 2, 8)), 1e-3, 0.1)
    assert all(p.dim() >= 2 for p in optimizer.param_groups[0]["params"])
    assert optimizer.param_groups[1]["weight_decay"] == 0.0


def test_accumulation_changes_nothing(text: Path) -> None:
    losses = []
    for pieces in (1, 2, 4):
        options = lm.parse([*SMALL, "--data", str(text), f"--accumulate={pieces}"])
        trainer = lm.Trainer(options, torch.device("cpu"), 0, 1)
        losses.append([trainer.step(step).item() for step in range(5)])
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    assert losses[0] == pytest.approx(losses[2], abs=1e-4)


def test_impossible_options(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--dim=30"], ["--batch=5", "--accumulate=2"]):
        with pytest.raises(SystemExit):
            lm.parse(wrong)
        assert "must be a multiple" in capsys.readouterr().err


def test_shards_need_a_process_group(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(SystemExit):
        lm.parse(["--fsdp"])
    assert "start it with torchrun" in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert lm.parse(["--fsdp"]).fsdp


def test_goal_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_GOAL_STEPS", "77")
    assert lm.parse([]).steps == 77
