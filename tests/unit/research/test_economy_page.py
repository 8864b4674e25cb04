"""The script that writes the figures of docs/reference/economy.md."""

import json
from pathlib import Path

import pytest

from holdfast_research import economy_page as economy

PAGE = """# Costs

Words before.

<!-- begin synthetic -->
old
<!-- end synthetic -->

<!-- begin recorded -->
figures of recorded markets
<!-- end recorded -->

Words after.
"""


@pytest.fixture(autouse=True)
def few_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page is made of runs for minutes."""
    monkeypatch.setattr(economy, "POLICIES", ("greedy", "eager", "never-return"))
    monkeypatch.setattr(economy, "COLUMNS", ("greedy", "deadline-rule"))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    path = tmp_path / "docs" / "page.md"
    path.write_text(PAGE)
    return path


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "traces"
    folder.mkdir()
    for name, period in (("north", 5), ("south", 9)):
        samples = [int(step % period > 1) for step in range(900)]
        (folder / f"{name}.json").write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": samples}))
    return folder


# Breaks if words that people wrote, or figures of markets that were not run, are lost.
def test_only_what_was_run_is_replaced(page: Path) -> None:
    economy.main(["--windows", "1", "--others", "0", "--workers", "1", "--page", str(page)])
    text = page.read_text()
    assert text.startswith("# Costs\n\nWords before.\n")
    assert text.endswith("figures of recorded markets\n<!-- end recorded -->\n\nWords after.\n")
    assert "old" not in text
    assert "8 made-up markets of 60 days each (seed 1); 1 jobs per market" in text
    assert "32 jobs under each policy" in text
    assert "Late, of those that keep the deadline: 0 of 64 runs." in text
    assert (page.parent / "images" / "economy-synthetic.svg").exists()
    assert "(images/economy-synthetic.svg)" in text
    again = page.read_bytes()
    economy.main(["--windows", "1", "--others", "0", "--workers", "1", "--page", str(page)])
    assert page.read_bytes() == again, "the same markets give the same page"


def test_traces_are_run_as_well_under_all_terms(page: Path, traces: Path) -> None:
    markets = economy.recorded(traces)
    text = economy.figures(markets, 2, 1, page, lambda _text: None)
    assert "2 traces of 6 days each on average (north, south); 2 jobs per market" in text
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    names = ["`greedy`", "`eager`", "`never-return`", "`deadline-rule`"]
    assert [row[0] for row in rows if len(row) == 6][2:] == names
    wide = [row for row in rows if len(row) == 3]
    assert wide[0][1:] == ["`greedy`", "`deadline-rule`"]
    assert {len(cell.split(" / ")) for row in wide[2:] for cell in row[1:]} == {2}
    said = [row[0] for row in wide[2:]]
    assert said[:4] == ["load 0.6 (4)", "load 0.75 (4)", "load 0.85 (4)", "load 0.92 (4)"]
    assert said[4:] == [f"{terms.description} ({4 if terms.together else 8})" for terms in economy.OTHERS]


def test_terms_change_what_they_say() -> None:
    markets = economy.synthetic()
    study = economy.Study(markets=markets.apart, policies=["deadline"])
    for terms in economy.OTHERS:
        changed = terms.change(study, markets)
        assert changed != study
        assert (changed.markets == markets.together) == terms.together
        if terms.changes:
            assert terms.description in changed.terms


@pytest.mark.parametrize("text", ["nothing", "<!-- begin x --><!-- end x --><!-- begin x --><!-- end x -->"])
def test_a_page_without_the_comments_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="begin x"):
        economy.put(text, "x", "figures")


def test_text_with_backslashes_is_put_as_it_is() -> None:
    assert economy.put("<!-- begin x --><!-- end x -->", "x", r"\1") == "<!-- begin x -->\n\n\\1\n\n<!-- end x -->"


# Breaks if the page that is checked in could not be written again.
def test_the_page_has_both_places() -> None:
    page = economy.PAGE.read_text(encoding="utf-8")
    for name in ("synthetic", "recorded"):
        assert economy.put(page, name, "figures")
        assert f"(images/economy-{name}.svg)" in page
        assert (economy.PAGE.parent / "images" / f"economy-{name}.svg").exists()
