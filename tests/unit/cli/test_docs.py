"""Writing and checking the pages that are made from the code."""

from pathlib import Path

from holdfast.cli import docs

PAGES = Path(__file__).resolve().parents[3] / "docs"


def test_the_page_in_the_repository_is_up_to_date():
    assert docs.main(["--check", str(PAGES)]) == 0


def test_check_tells_and_writes_nothing(tmp_path, capsys):
    assert docs.main(["--check", str(tmp_path)]) == 1
    assert "decisions.md is not up to date" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert docs.main([str(tmp_path)]) == 0
    assert docs.main(["--check", str(tmp_path)]) == 0
