"""Links lead somewhere, and each page is in the index once, under its kind."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.unit.docs.pages import DOCS, KINDS, PAGES, ROOT, anchors, links, prose, relative

INDEX = DOCS / "README.md"
_ITEM = re.compile(r"^- \[[^\]]+\]\(([^)]+)\): [^\n]+$", re.MULTILINE)
_MENTION = re.compile(r"\bdocs/[\w/-]+\.(?:md|ipynb|svg)\b")
INVENTED = "tests/unit/scripts/docs_site/test_main.py"  # it writes small pages of its own
TEXT = (".py", ".toml", ".yaml", ".yml", ".tpl", ".md", "Makefile", "Dockerfile")


# Breaks if a page or a heading is renamed and a link to it is not.
@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in links(page):
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{relative(page)}: {link} leads to no file"
        if anchor:
            assert anchor in anchors(file), f"{relative(page)}: {link} leads to no heading of {relative(file)}"


# Breaks if a page is added, moved or removed and the index is not changed.
def test_the_index_lists_each_page_once_under_its_kind() -> None:
    sections = dict(part.partition("\n")[::2] for part in prose(INDEX).split("\n## ")[1:])
    assert list(sections) == list(KINDS.values())
    for folder, kind in KINDS.items():
        listed = _ITEM.findall(sections[kind])
        there = sorted(path.relative_to(DOCS).as_posix() for path in PAGES if path.is_relative_to(DOCS / folder))
        assert sorted(listed) == there, f"docs/README.md, section {kind}"
    strays = [
        relative(path)
        for path in PAGES
        if path.is_relative_to(DOCS) and path.parent.name not in KINDS and path != INDEX
    ]
    assert strays == []


# Breaks if a page is moved and a docstring, a script or the chart still names the old place.
def test_every_page_that_a_file_names_exists() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if name == INVENTED or not name.endswith(TEXT) or not path.is_file():
            continue
        for mention in _MENTION.findall(path.read_text(encoding="utf-8")):
            assert (ROOT / mention).exists(), f"{name} names {mention}, which does not exist"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_a_page_has_one_title(page: Path) -> None:
    assert len(re.findall(r"^# ", prose(page), re.MULTILINE)) == 1
