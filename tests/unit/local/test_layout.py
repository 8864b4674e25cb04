"""Folders follow our own variables first, then the XDG ones, then the home folder."""

from pathlib import Path

import pytest

from holdfast_cli.cache import cache_dir
from holdfast_local.layout import default_root


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_CACHE", "HOLDFAST_LOCAL_ROOT", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/ada")


def test_the_home_folder_is_the_last_choice() -> None:
    assert cache_dir() == Path("/home/ada/.cache/holdfast")
    assert default_root() == Path("/home/ada/.local/state/holdfast/local")


def test_xdg_variables_come_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert cache_dir() == Path("/c/holdfast")
    assert default_root() == Path("/s/holdfast/local")


def test_our_variables_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("HOLDFAST_CACHE", "~/mine")
    monkeypatch.setenv("HOLDFAST_LOCAL_ROOT", "/r")
    assert cache_dir() == Path("/home/ada/mine")
    assert default_root() == Path("/r")
