"""The run of Weights & Biases in this process. A small module stands for the library.

Its names are those of wandb 0.31.0: `wandb.run`, None before `init` and after `finish`; `run.offline`; `run.url`, which
is empty until the server has answered, and of an offline run None, with a warning on the terminal.
"""

import sys
import types

import pytest

from holdfast_train.pod.wandb_run import run_url


class FakeRun:
    def __init__(self, url: object, offline: bool = False) -> None:
        self._url, self.offline = url, offline
        self.asked = 0

    @property
    def url(self) -> object:
        self.asked += 1
        if isinstance(self._url, Exception):
            raise self._url
        return self._url


def has_run(monkeypatch: pytest.MonkeyPatch, run: object) -> None:
    module = types.ModuleType("wandb")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)


def test_a_process_without_the_library_does_not_import_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    assert run_url() is None
    assert "wandb" not in sys.modules


def test_the_address_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    has_run(monkeypatch, FakeRun("https://wandb.ai/me/faces/runs/u-1"))
    assert run_url() == "https://wandb.ai/me/faces/runs/u-1"


# Breaks if a report fails because of the tracker, or tells what the operator refuses.
@pytest.mark.parametrize(
    "run",
    [None, FakeRun(""), FakeRun(None), FakeRun(5), FakeRun("javascript:alert(1)"), FakeRun(ValueError("no")), object()],
)
def test_no_address(monkeypatch: pytest.MonkeyPatch, run: object) -> None:
    has_run(monkeypatch, run)
    assert run_url() is None


# Breaks if each report of an offline run prints a warning.
def test_an_offline_run_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    run = FakeRun("https://wandb.ai/me/faces/runs/u-1", offline=True)
    has_run(monkeypatch, run)
    assert run_url() is None
    assert run.asked == 0
