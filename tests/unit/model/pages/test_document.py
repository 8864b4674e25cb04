"""The frame of a page, and its file."""

import os
from html import unescape
from pathlib import Path

import pytest

from holdfast_model.pages.document import check_writable, document, write_whole
from holdfast_model.pages.template import Markup


# Breaks if a page may run a script or ask a network for something, or if its own style is refused by the browser.
def test_a_page_is_sealed() -> None:
    text = document("a <b>", [Markup("<p>x</p>"), Markup()])
    assert "default-src 'none'; img-src data:; style-src 'sha256-" in unescape(text)
    assert "<title>a &lt;b&gt;</title>" in text
    assert text.count("<section>") == 1
    assert "<script" not in text
    assert " style=" not in text


# Breaks if an interrupted write leaves half a file, or takes the place of an earlier one.
def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "page.html"
    write_whole(file, "before")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(file, "after")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert file.read_text() == "before"


def test_a_name_that_is_not_text_can_be_written(tmp_path: Path) -> None:
    write_whole(tmp_path / "page.html", "\udcff")
    assert (tmp_path / "page.html").read_text() == "\\udcff"


# Breaks if a command works for hours, and finds only then that its result cannot be written.
def test_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_writable(tmp_path / "a" / "new" / "folder")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file"):
        check_writable(tmp_path / "file" / "new")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(PermissionError):
        check_writable(tmp_path / "new")
