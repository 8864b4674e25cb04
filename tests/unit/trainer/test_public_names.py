"""The names of the library: each is there, and a process that uses none of them does not import what is behind them."""

import subprocess
import sys

import pytest

import holdfast_train


def test_every_name_is_there() -> None:
    assert {name: getattr(holdfast_train, name) for name in holdfast_train.__all__}
    assert set(holdfast_train.__all__) <= set(dir(holdfast_train))
    with pytest.raises(AttributeError, match="has no attribute 'Runs'"):
        _ = holdfast_train.Runs


# Breaks if each pod's writer and init container import the training loop, which doubles the time of their start.
@pytest.mark.parametrize("module", ["save.writer", "pod.init_container", "folder.writer"])
def test_helpers_of_a_pod_do_not_import_the_training_loop(module: str) -> None:
    code = f"import sys, holdfast_train.{module}; print('holdfast_train.run.run' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
