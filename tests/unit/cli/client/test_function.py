"""A function as the command of a job: it runs as it would here, or is refused with what cannot be sent."""

import functools
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from holdfast_cli.client.function import command_of_function
from holdfast_cli.errors import CliError, ExitCode


def run(command: list[str], folder: Path) -> str:
    """What the command prints, in a copy of the folder that only it knows."""
    return subprocess.run(
        [sys.executable, *command[1:]], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def of_notebook(source: str, name: str, tmp_path: Path, **known: Any) -> Callable[..., Any]:
    """A function that a cell of a notebook defines: its module is __main__, and its source can be read."""
    cell = tmp_path / f"cell_{name}.py"
    cell.write_text(dedent(source))
    space: dict[str, Any] = {"__name__": "__main__", **known}
    exec(compile(cell.read_text(), str(cell), "exec"), space)
    found: Callable[..., Any] = space[name]
    return found


# Breaks if a function of a module does not run in a pod, where only the folder is known.
@pytest.mark.parametrize("place", ["functions_a.py", "src/package_b/loops.py", "package_c/__init__.py"])
def test_a_function_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("def train(lr, name='x'):\n    print(f'{lr * 2} {name!r}')\n")
    root = tmp_path / "src" if place.startswith("src") else tmp_path
    module = str(file.relative_to(root).with_suffix("")).replace("/", ".").removesuffix(".__init__")
    monkeypatch.syspath_prepend(str(root))
    train = getattr(__import__(module, fromlist=["train"]), "train")  # noqa: B009
    assert run(command_of_function(train, (0.5, "it's"), tmp_path), tmp_path) == '1.0 "it\'s"\n'


# Breaks if a function of a notebook does not have what it uses, also in its signature and in what it defines itself.
def test_a_function_of_a_notebook(tmp_path: Path) -> None:
    train = of_notebook(
        """
        def train(steps: Path, scale: float = math.pi):
            import json
            def inner():
                return [join(str(steps), str(one)) for one in range(2)]
            print(json.dumps(inner()), round(scale, 2), max(1, 2))
        """,
        "train",
        tmp_path,
        Path=Path,
        math=math,
        join=__import__("posixpath").join,
    )
    assert run(command_of_function(train, ("a",), tmp_path), tmp_path) == '["a/0", "a/1"] 3.14 2\n'


# Breaks if a function of a notebook lacks another one that it uses: to decorate it, as a default, or in a circle.
def test_functions_of_a_notebook_that_use_each_other(tmp_path: Path) -> None:
    source = """
        def twice(function):
            @wraps(function)
            def both(*arguments):
                function(*arguments)
                return function(*arguments)
            return both

        def even(number):
            return number == 0 or odd(number - 1)

        def odd(number):
            return number != 0 and even(number - 1)

        @twice
        def train(number, check=odd):
            print(number, check(number), even(number))
    """
    train = of_notebook(source, "train", tmp_path, wraps=functools.wraps)
    assert run(command_of_function(train, (3,), tmp_path), tmp_path) == "3 True False\n" * 2


# Breaks if a number of a library, or one that has no literal, is another one in the pod, or an error there.
@pytest.mark.parametrize("number", [np.float64(0.1), np.float32(0.5), math.inf, -math.inf, True, 3, -1e-300])
def test_numbers(tmp_path: Path, number: float) -> None:
    show = of_notebook("def show(number):\n    print(number == number, repr(number))\n", "show", tmp_path)
    plain = number if isinstance(number, bool | int) else float(number)
    assert run(command_of_function(show, (plain,), tmp_path), tmp_path) == f"True {plain!r}\n"
    if isinstance(number, float):
        assert command_of_function(show, (number,), tmp_path) == command_of_function(show, (plain,), tmp_path)


# Breaks if a job fails in its pod because of what could be said here.
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def train():\n    return model, helper()\n", "uses helper, model, which cannot be sent with it"),
        ("def train():\n    return lambda: never_defined\n", "uses never_defined, which cannot be sent with it"),
        ("def other():\n    return model\ndef train():\n    other()\n", "other uses model, which cannot be sent"),
        ("def train(rate=RATE):\n    return rate\n", "uses RATE, which cannot be sent with it"),
        ("@cached\ndef train():\n    return 1\n", "uses cached, which cannot be sent with it"),
        ("class A:\n    def train(self): ...\ntrain = A().train\n", "train is not a function at the top level"),
        ("def train():\n    return '$(HOME)'\n", r"has \$\( or \$\$ in its source"),
        ("train = lambda: 1\n", "<lambda> is not a function at the top level"),
        (f"def train():\n    '''{'x' * 4096}'''\n", "characters with its imports; at most 4,096 can be sent"),
    ],
)
def test_what_cannot_be_sent(tmp_path: Path, source: str, words: str) -> None:
    def helper() -> None: ...

    helper.__module__ = "__main__"

    def cached(function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    cached.__module__ = "__main__"
    train = of_notebook(source, "train", tmp_path, model=[1], helper=helper, cached=cached, RATE=0.1)
    with pytest.raises(CliError, match=words) as raised:
        command_of_function(train, (), tmp_path)
    assert raised.value.exit_code == ExitCode.USAGE
    assert "put it into a file of the folder" in raised.value.hint
    assert raised.value.__notes__ == [f"hint: {raised.value.hint}"]


def test_a_module_of_another_folder(tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r"dedent is of the module textwrap, which is not in "):
        command_of_function(dedent, (), tmp_path)
    with pytest.raises(CliError, match="partial is not a function"):
        command_of_function(functools.partial(dedent), (), tmp_path)
    with pytest.raises(CliError, match=r"the argument \[1\] is a list; allowed: text, numbers"):
        command_of_function(of_notebook("def f(x): ...\n", "f", tmp_path), ([1],), tmp_path)
