"""State of many kinds through `Run`: it comes back as it was, or the first save refuses it by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.trainer.runs import verdict
from tests.support.trainer.stores import environment

from holdfast_train import Run, Values


def steps(uri: str | None, attempt: int, *, fused: bool, last: int) -> list[float]:
    """The losses of a small convolution in the memory format channels_last, whose process ends after step `last`."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.Conv2d(3, 2, 1))
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
    losses = []
    with Run(model=model, optimizer=optimizer, environment=uri and environment(uri, attempt)) as run:  # type: ignore[arg-type]
        for step in run.steps(6):
            images = torch.randn(2, 2, 5, 5, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            loss = model(images.to(memory_format=torch.channels_last)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if step == last:
                raise KeyboardInterrupt
            run.save()
    return losses


@pytest.mark.parametrize("fused", [True, False])
def test_a_model_in_channels_last_has_the_losses_of_an_uninterrupted_training(uri: str, fused: bool) -> None:
    """Breaks if the state of the optimizer does not lie in memory as its parameters: a fused step mixes up values."""
    whole = steps(None, 1, fused=fused, last=6)
    with pytest.raises(KeyboardInterrupt):
        steps(uri, 1, fused=fused, last=3)
    assert steps(uri, 2, fused=fused, last=6) == whole[3:]


def test_counts_by_numpy_numbers_and_shared_arrays_come_back(uri: str) -> None:
    """Breaks if a program finds objects of the library in place of its keys, or two arrays in place of one."""
    for attempt in (1, 2):
        found = Values(counts={}, ends=None)
        with Run(found=found, environment=environment(uri, attempt)) as run:
            if attempt == 1:
                array = np.arange(3.0)
                found.counts, found.ends = {np.int64(7): 1, (np.str_("a"), 2): 3}, [array, {"first": array}]
            for _ in run.steps(2):
                run.report(loss=1.0)
    assert found.counts == {7: 1, ("a", 2): 3}
    assert [type(key) for key in found.counts] == [np.int64, tuple]
    assert found.ends is not None
    assert found.ends[0] is found.ends[1]["first"]


class Renamed(torch.nn.Linear):
    """A layer that had another name for its weight in version 1, as the layers of some libraries."""

    _version = 2

    def _load_from_state_dict(self, state: Any, prefix: str, metadata: Any, *more: Any) -> None:
        if metadata.get("version", 1) < 2:
            state[f"{prefix}weight"] = state.pop(f"{prefix}kernel")
        super()._load_from_state_dict(state, prefix, metadata, *more)


def test_a_module_is_loaded_as_the_version_that_saved_it(uri: str) -> None:
    """Breaks if a layer takes its own state for that of an older version of its class, and changes it."""
    weights = []
    for attempt in (1, 2):
        model = torch.nn.Sequential(Renamed(2, 2))
        with Run(model=model, environment=environment(uri, attempt)) as run:
            for _ in run.steps(2):
                run.report(loss=1.0)
                run.save()
        weights.append(model[0].weight.tolist())
    assert weights[0] == weights[1]


def test_many_objects_of_a_rank_are_objects_all_the_same(uri: str) -> None:
    """Breaks if 1,000 environments of a rank become one byte string, in which a resume finds no object."""
    for attempt in (1, 2):
        found = {f"environment-{number}": Values(mean=np.full(2, number * (2 - attempt))) for number in range(1000)}
        with Run(per_rank=found, environment=environment(uri, attempt)) as run:
            for _ in run.steps(2):
                run.report(loss=1.0)
    assert [one.mean.tolist() for one in found.values()] == [[number, number] for number in range(1000)]


def add_group(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    optimizer.add_param_group({"params": list(model[1].parameters())})


def add_layer(model: torch.nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    model.append(torch.nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (add_group, "'optimizer' has another form than at the beginning of this run (parameter group 1)"),
        (add_layer, "'model' has another form than at the beginning of this run (2.weight)"),
    ],
)
def test_a_program_that_changes_the_form_of_its_objects_is_told_at_the_save(
    uri: str, capsys: pytest.CaptureFixture[str], change: Any, words: str
) -> None:
    """Breaks if a training saves what it cannot load, and learns it when its node is lost, in each attempt."""
    for attempt in (1, 2):
        model = torch.nn.Sequential(torch.nn.LazyLinear(2), torch.nn.Linear(2, 2))
        optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
        try:
            with Run(model=model, optimizer=optimizer, environment=environment(uri, attempt)) as run:
                for step in run.steps(4):
                    model(torch.ones(1, 3)).sum().backward()
                    optimizer.step()
                    if step == 1:
                        assert words not in capsys.readouterr().err
                        change(model, optimizer)
                    run.save()
                    if step == 2:
                        raise KeyboardInterrupt
        except KeyboardInterrupt:
            assert attempt == 1
            assert capsys.readouterr().err.count(words) == 1
        except SystemExit as error:
            assert attempt == 2
            assert "make it so before `with Run(...)`" in str(error.__cause__)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ((cycle := [{}])[0].update(up=cycle) or cycle, "is in 100 containers, one in another"),
        (np.matrix([[1]]), "state/kept is a matrix; allowed"),
        ({torch.ones(1): 1}, "state/kept has a key with a tensor"),
    ],
    ids=["cycle", "matrix", "key"],
)
def test_the_first_save_names_what_cannot_come_back(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any, words: str
) -> None:
    """Breaks if training goes on without a checkpoint, or fails at its first resume, hours later."""
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit), Run(state=Values(kept=value), environment=where) as run:
        for _ in run.steps(2):
            run.report(loss=1.0)
            run.save()
    found = verdict(tmp_path)
    assert (found["result"], found["step"]) == ("failed", 1)
    assert words in found["message"]
