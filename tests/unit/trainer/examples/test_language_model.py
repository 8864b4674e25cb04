"""The reference trainer: its model is correct, and a resumed run equals the uninterrupted one bit for bit."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.trainer.stores import environment

from holdfast_train import Run
from holdfast_train.environment import Environment
from holdfast_train.examples import language_model as lm
from holdfast_train.examples.byte_data import ByteData, build

SMALL = ["--dim=32", "--layers=2", "--heads=2", "--context=16", "--batch=4", "--warmup=5", "--steps=40"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    folder = tmp_path / "text"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.py").write_text(f"def function_{number}(value):\n    return value + {number}\n" * 40)
    (folder / "image.bin").write_bytes(b"\0" * 10_000)
    return folder


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
                run._notice.give(20, "a test")
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


def test_data_is_built_once(text: Path) -> None:
    first = build(str(text))
    stamp = first.stat().st_mtime_ns
    assert build(str(text)) == first
    assert first.stat().st_mtime_ns == stamp
    assert first.read_bytes().count(b"\0") == 5  # five files of text, not the image
    (text / "0.py").write_text("new")
    assert build(str(text)) != first
    assert [path.name for path in first.parent.iterdir() if path.name.startswith(".")] == []


def test_data_of_a_file_and_a_glob(text: Path) -> None:
    assert build(str(text / "1.py")).read_bytes().startswith(b"def function_1")
    assert build(f"{text}/[12].py").read_bytes().count(b"\0") == 2
    with pytest.raises(ValueError, match="has no file"):
        build(str(text / "missing"))


def test_every_window_once_an_epoch(text: Path) -> None:
    path = text / "numbers"
    path.write_bytes(bytes(range(201)))
    data = ByteData(path, length=10, batch=5, seed=3)
    epochs = [[tuple(row) for step in range(4) for row in data.batch(4 * epoch + step)] for epoch in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert epochs[0] != epochs[1]
    assert len(set(epochs[0])) == 20
    assert data.batch(2).shape == (5, 11)


def test_ranks_share_a_step(text: Path) -> None:
    data = ByteData(build(str(text)), length=16, batch=4, seed=1)
    together = np.concatenate([data.batch(7, rank, 2) for rank in range(2)])
    assert (together == data.batch(7)).all()


def test_fingerprint_of_the_data(text: Path) -> None:
    found = ByteData(text / "0.py", length=16, batch=4, seed=1).fingerprint()
    size = (text / "0.py").stat().st_size
    assert found == {"seed": "1", "batch": "4", "length": "16", "bytes": str(size)}


def test_position_of_other_data(text: Path) -> None:
    data = ByteData(build(str(text)), length=16, batch=4, seed=1)
    data.batch(8)
    state = data.state_dict()
    assert state["step"] == 9
    data.load_state_dict({**state, "bytes": 1})
    assert data.step == 9
    with pytest.raises(ValueError, match="seed"):
        data.load_state_dict({**state, "seed": 9})


def test_data_smaller_than_a_batch(text: Path) -> None:
    (text / "tiny").write_bytes(b"abc")
    with pytest.raises(ValueError, match="fewer than a batch"):
        ByteData(text / "tiny", length=16, batch=4)
