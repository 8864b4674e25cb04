"""The files of a page: they come with the package, and those of others are as their makers published them."""

import hashlib
import re
from importlib.resources import files

import pytest

from holdfast_cli.pages.assets import asset

VENDORED = files("holdfast_cli.pages") / "files" / "uPlot-1.6.32"
PUBLISHED = {  # of the npm package uplot, version 1.6.32
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


# Breaks if somebody edits the library in place, or replaces it by another version without a word here.
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_library_is_as_it_was_published(name: str) -> None:
    assert hashlib.sha256((VENDORED / name).read_bytes()).hexdigest() == PUBLISHED[name]
    assert {one.name for one in VENDORED.iterdir()} == set(PUBLISHED)


def test_the_library_says_its_version_and_brings_its_licence() -> None:
    script = asset("uplot.js").decode()
    assert "uPlot (v1.6.32)" in script
    assert "The MIT License (MIT)" in script
    assert "Permission is hereby granted" in script


def test_styles_are_those_of_the_library_and_then_ours() -> None:
    styles = asset("page.css").decode()
    assert styles.index(".u-legend") < styles.index("--curve-0")


# Breaks if the script of pages grows into an application.
def test_the_script_of_pages_is_short() -> None:
    assert asset("page.js").count(b"\n") < 250


# Breaks if a page would ask something of a network, or of a script that it makes of text.
@pytest.mark.parametrize("name", ["page.css", "page.js"])
def test_nothing_is_asked_of_a_network(name: str) -> None:
    text = asset(name).decode()
    assert not re.search(r"https?://|@import|url\(", text)
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)


def test_no_other_file_has_a_name() -> None:
    with pytest.raises(KeyError):
        asset("../assets.py")
