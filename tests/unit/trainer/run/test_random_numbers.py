"""The library does not use the program's random numbers: they are the same with and without an operator."""

import ast
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.runs import Flaky, hasty, settle
from tests.support.trainer.stores import environment
from tests.support.waiting import wait_for

import holdfast_train
from holdfast_protocol.settings import Every
from holdfast_train import Run
from holdfast_train.environment import Environment
from holdfast_train.examples.stub import Counter
from holdfast_train.run import run as module

STEPS = 12


def draws(where: Environment | None, endpoint: Endpoint | None = None, flaky: Flaky | None = None) -> list[float]:
    """What a seeded program draws from the global generators of Python, NumPy and torch, from before its Run on."""
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    found = []
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(STEPS):
            if flaky is not None:
                flaky.down = 3 <= step < 6
            if endpoint is not None and step == 7:
                seen = len(endpoint.tokens)
                endpoint.status = 503
                endpoint.order("checkpoint")
                wait_for(lambda: len(endpoint.tokens) >= seen + 6, 30, "requests that were refused")  # noqa: B023
                endpoint.status = 200
            settle(run)
            found += [random.random(), float(np.random.random()), float(torch.rand(()))]
    return found


def test_draws_are_the_same_through_polls_failures_and_saves(
    tmp_path: Path, endpoint: Endpoint, flaky: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast_train.pod.launcher.connection.FIRST_BACK_OFF", 0.01)
    monkeypatch.setattr("holdfast_train.pod.launcher.connection.LONGEST_BACK_OFF", 0.02)
    monkeypatch.setattr("holdfast_train.storage.retrying.FIRST_DELAY", 0.001)
    where = hasty(f"file://{tmp_path}/prefix", every=Every(2), **endpoint.variables)
    where = replace(where, timings=replace(where.timings, save=0.05))
    assert draws(where, endpoint, flaky) == draws(None)


def test_draws_of_the_storage_at_the_start_are_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a client of the storage that draws from the global generators changes the numbers of the program."""
    original = module.open_retrying

    def drawing(*arguments: Environment | str) -> object:
        random.random()
        np.random.random()
        torch.rand(())
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "open_retrying", drawing)
    assert draws(environment(f"file://{tmp_path}/prefix")) == draws(None)


def test_no_module_draws_from_a_global_generator() -> None:
    """`data/rng.py` alone touches them: it captures, restores and seeds them for the program."""
    root = Path(holdfast_train.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        if path.name == "rng.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in ("random", "numpy.random"):
                found.append(f"{path.name}:{node.lineno}")
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random":
                found += (
                    [] if node.attr in ("Random", "SystemRandom") else [f"{path.name}:{node.lineno} random.{node.attr}"]
                )
    assert found == []
