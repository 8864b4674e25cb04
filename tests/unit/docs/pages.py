"""The pages for people, notebooks too, and what is in them: headings, links, fenced blocks."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.docs_site.notebook import markdown

ROOT: Final = Path(__file__).resolve().parents[3]
DOCS: Final = ROOT / "docs"
KINDS: Final = {
    "tutorial": "Tutorials",
    "how-to": "How-to guides",
    "runbooks": "Runbooks",
    "reference": "Reference",
    "concepts": "Concepts",
}
PAGES: Final = sorted(
    {
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *DOCS.rglob("*.ipynb"),
        *(path for top in ("images", "operator", "tests/research") for path in (ROOT / top).rglob("*.md")),
    }
)
GENERATED: Final = frozenset(DOCS / "reference" / name for name in ("api.md", "cli.md", "decisions.md"))

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block. `line` is where it begins in its page."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """PAGE:LINE, for test names and error messages."""
        return f"{relative(self.page)}:{self.line}"


def relative(path: Path) -> str:
    """The path from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[Block]:
    """The page's fenced blocks in these languages, in their order."""
    text = markdown(page)
    found = [Block(page, text.count("\n", 0, at.start()) + 1, at[2], at[3]) for at in _FENCE.finditer(text)]
    return [block for block in found if block.language in languages]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", markdown(page))


def links(page: Path) -> list[str]:
    """Where the page's links lead, but for addresses on the web."""
    found: list[str] = _LINK.findall(prose(page))
    return [target for target in found if not target.startswith(("https://", "http://", "mailto:"))]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the page's headings."""
    found: set[str] = set()
    for heading in _HEADING.findall(prose(page)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = 1
        while slug in found:
            slug, number = f"{slug.rsplit('-', 1)[0] if number > 1 else slug}-{number}", number + 1
        found.add(slug)
    return found
