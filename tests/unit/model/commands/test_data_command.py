"""The command `holdfast-train data`: what it prints, its report, and its exit codes."""

import json
from pathlib import Path

import pytest

from holdfast_train.exchange.command import main


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, content in (("train/<b>x</b>", "1"), ("train/y", "22"), ("test/y", "333")):
        place = tmp_path / "data" / name.replace("</", "<")
        place.mkdir(parents=True)
        (place / "file\x1b[2J.png").write_text(content)
    return tmp_path / "data"


# Breaks if --strict does not fail, or if the command fails without it.
def test_a_class_that_is_missing_fails_only_if_strict(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", str(root)]) == 0
    assert main(["data", str(root), "--strict"]) == 1
    said = capsys.readouterr()
    assert "3 samples of 2 classes" in said.out
    assert "holdfast-train data: split 'test' has no sample of 1 class: <b>x<b>" in said.err


# Breaks if a name of a file or folder reaches the page as HTML, or the terminal as a command.
def test_names_are_harmless(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "test" / "y" / "copy.png").write_text("1")
    assert main(["data", str(root), "--html", str(tmp_path / "x.html")]) == 0
    page, said = (tmp_path / "x.html").read_text(), capsys.readouterr()
    assert "&lt;b&gt;x&lt;b&gt;" in page
    assert "<b>x" not in page
    assert "\x1b" not in said.out + said.err
    assert "file?[2J.png" in said.out


def test_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", str(root), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["splits"]["test"]["missing"] == ["<b>x<b>"]
    assert found["splits"]["train"]["evenness"] == 1


# Breaks if a large data set is read before a place is refused that cannot have the report.
def test_a_report_is_whole_or_not_there(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast_model.commands.data_command.look", None)
    assert main(["data", str(root), "--html", str(tmp_path)]) == 1
    assert "Is a directory" in capsys.readouterr().err
    assert main(["data", str(root), "--html", str(tmp_path / "none" / "x.html")]) == 1
    assert "none" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert main(["data", str(tmp_path / "none")]) == 4
