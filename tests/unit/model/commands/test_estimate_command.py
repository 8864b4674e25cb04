"""The command `holdfast-train estimate`: what it prints, its JSON, and what is wrong with its options."""

import json
import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn

from holdfast_train.exchange.command import main

HERE = __name__


def training(width: str = "64", batch: int = 4) -> tuple[nn.Module, Callable[[], object]]:
    model = nn.Linear(int(width), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.zeros(batch, int(width))

    def step() -> None:
        model(inputs).sum().backward()
        optimizer.step()

    return model, step


def reads_a_value(batch: int = 4) -> tuple[nn.Module, Callable[[], object]]:
    model, _ = training(batch=batch)
    return model, lambda: model(torch.zeros(batch, 64)).sum().item()


def estimate(*options: str) -> int:
    return main(["estimate", *options])


def test_a_table_by_batch(capsys: pytest.CaptureFixture[str]) -> None:
    size = 256 << 20  # of the model
    options = ["--training", f"{HERE}:training", "--argument", str(size >> 2), "--batch", "4", "--batch", "1"]
    assert estimate(*options, "--fits", "spot-t4=15GiB", "--fits", "small=3GiB", "--fits", "x=0.5GiB") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "batch",
        "parameters",
        "gradients",
        "optimizer",
        "activations",
        "peak",
        "with",
        "margin",
        "inference",
    ]
    assert [line.split()[0] for line in lines[1:3]] == ["1", "4"]
    assert "256.0 MiB" in lines[1]
    assert lines[-3] == "spot-t4 (15.0 GiB): a batch of 1 fits, a batch of 4 fits"
    assert lines[-2] == "small (3.0 GiB): a batch of 1 fits, a batch of 4 may fit"
    assert lines[-1] == "x (512.0 MiB): a batch of 1 does not fit, a batch of 4 does not fit"


def test_json_is_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert estimate("--training", f"{HERE}:training", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["v"], found["source"], found["arguments"], found["unknown"]) == (1, f"{HERE}:training", [], None)
    (row,) = found["rows"]
    one = row["training"]
    assert row["batch"] is None
    assert one["peak"] == one["parameters"] + one["gradients"] + one["optimizer"] + one["activations"]
    assert one["parameters"] == 65 * 4
    assert one["peak"] < one["withMargin"]
    assert row["inference"]["peak"] < one["peak"]


# Breaks if a torch without the private API makes a file that looks as if nothing needed memory.
def test_not_known(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "torch._subclasses.fake_tensor", None)
    for options in ((), ("--json",)):
        assert estimate("--training", f"{HERE}:training", *options) == 1
        said = capsys.readouterr()
        assert "holdfast-train estimate: not known: torch 2." in said.err
        assert "torch._subclasses.fake_tensor" in said.err
    found = json.loads(said.out)
    assert found["rows"] == []
    assert "torch._subclasses.fake_tensor" in found["unknown"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--training", "train"],
         "--training 'train' is not a function; allowed: MODULE:FUNCTION, as train:training"),
        (["--training", "nowhere:x"], "there is no module 'nowhere' here"),
        (["--training", "holdfast_train.nowhere:x"], "there is no module 'holdfast_train.nowhere' here"),
        (["--training", f"{HERE}:nothing"], "the module has no function 'nothing'"),
        (["--training", f"{HERE}:HERE"], "the module has no function 'HERE'"),
        (["--training", f"{HERE}:estimate", "--batch", "4"], "unexpected keyword argument 'batch'); --batch is"),
        (["--training", f"{HERE}:training", "--argument", "x"], "ValueError: invalid literal"),
        (["--training", f"{HERE}:reads_a_value"], "sum().item()): it needs the value of a tensor"),
        (["--problem", f"{HERE}:training"], "returns a tuple; it has to return a holdfast_model.package.Problem"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(options: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert estimate(*options) == 1
    said = capsys.readouterr()
    assert why in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    "options",
    [[], ["--training", "a:b", "--problem", "a:b"], ["--training", "a:b", "--batch", "0"],
     ["--training", "a:b", "--batch", "9" * 11], ["--training", "a:b", "--batch", "²"],
     ["--training", "a:b", "--fits", "15GiB"], ["--training", "a:b", "--fits", "t4=15 apples"]],
)  # fmt: skip
def test_wrong_command_lines(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        estimate(*options)
    assert ended.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def prints(batch: int = 4) -> tuple[nn.Module, Callable[[], object]]:
    print("loading")
    return training(batch=batch)


def exits(batch: int = 4) -> tuple[nn.Module, Callable[[], object]]:
    model, _ = training(batch=batch)
    return model, lambda: sys.exit(batch)


# Breaks if a program that prints makes a file that `holdfast check --memory` cannot read.
def test_what_the_program_prints_is_not_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert estimate("--training", f"{HERE}:prints", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["v"] == 1
    assert "loading" in err
    assert estimate("--training", f"{HERE}:prints", "--json", "--fits", "a=1GiB") == 1
    assert "--fits says nothing in JSON" in capsys.readouterr().err


# Breaks if a step that ends the program ends the command without a word.
def test_a_step_that_ends_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert estimate("--training", f"{HERE}:exits") == 1
    assert "the function ends the program (sys.exit); leave it out" in capsys.readouterr().err
