"""Build the documentation as a site: docs/ and the pages beside it, as they lie in the repository.

    python -m scripts.docs_site [FOLDER]    write the site into FOLDER, build/docs-site by default

Fails if a link leads to no page or to no heading. Pages are copied, so that three things can be changed in the copies:
a README.md becomes the index of its folder, a notebook becomes Markdown, and a link to a file that is not a page leads
to a page that shows the file. The navigation is docs/README.md: its headings and their lists.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from scripts.docs_site.notebook import markdown

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
BUILD: Final = ROOT / "build"
SETTINGS: Final = HERE / "settings.toml"
STYLE: Final = HERE / "style.css"
SHIM: Final = HERE / "iframe-worker.js"
SHIM_ON_THE_WEB: Final = "https://unpkg.com/iframe-worker/shim"  # the generator's search from a folder asks for it
INDEX: Final = "docs/README.md"
BESIDE: Final = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "images/trainer/README.md")
PAGES: Final = (".md", ".ipynb")
PICTURES: Final = (".svg", ".png", ".jpg", ".html")
LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}

_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_LOADED = re.compile(
    r"""<(?:script|img|iframe)\b[^>]*\bsrc="?(https?://[^"\s>]*)|<link\b[^>]*\bstylesheet\b[^>]*(https?://[^"\s>]*)"""
)
_ITEM = re.compile(r"^- \[([^\]]+)\]\(([^)]+)\)", re.MULTILINE)


class DocsError(Exception):
    """A page cannot be part of the site."""


def page_names(root: Path) -> list[str]:
    """The pages, as paths from the root of the repository."""
    return [
        *BESIDE,
        *sorted(path.relative_to(root).as_posix() for path in (root / "docs").rglob("*") if path.suffix in PAGES),
    ]


def copy_pages(root: Path, target: Path) -> None:
    """Copy all pages, pictures, and the files that pages lead to. Raises DocsError if such a file is not there."""
    names = page_names(root)
    shown: set[str] = set()
    for name in names:
        made = target / place(name)
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(rewritten(root, name, set(names), shown), encoding="utf-8")
    for name in sorted(shown):
        made = target / place(f"{name}.md")
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(shown_file(root / name, name), encoding="utf-8")
    for picture in (path for path in (root / "docs").rglob("*") if path.suffix in PICTURES):
        made = target / picture.relative_to(root)
        made.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, made)


def place(name: str) -> str:
    """Where a page lies in the site: a README is the index of its folder, and a notebook is a page as the others."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", re.sub(r"\.ipynb$", ".md", name))


def rewritten(root: Path, name: str, pages: set[str], shown: set[str]) -> str:
    """The page with links that work in the site. Adds to `shown` the files that are no pages and that it leads to."""

    def lead(found: re.Match[str]) -> str:
        before, link, after = found.groups()
        if "://" in link or link.startswith("mailto:"):
            return found[0]
        path = (root / name).parent.joinpath(link).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            raise DocsError(f"{name}: the link {link} leads to no file")
        to = path.relative_to(root).as_posix()
        if to not in pages and path.suffix not in PICTURES:
            shown.add(to)
            to, after = f"{to}.md", ")"
        return f"{before}{_relative(place(to), place(name))}{after}"

    text = markdown(root / name)
    parts, at = [], 0
    for fence in _FENCED.finditer(text):
        parts += [_LINK.sub(lead, text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join((*parts, _LINK.sub(lead, text[at:])))


def _relative(to: str, page: str) -> str:
    return Path(os.path.relpath(to, Path(page).parent)).as_posix()


def shown_file(path: Path, name: str) -> str:
    """A page that shows a file."""
    language = LANGUAGES.get(path.suffix, "text")
    return f"# {name}\n\n````{language}\n{path.read_text(encoding='utf-8').rstrip()}\n````\n"


def navigation(root: Path) -> list[dict[str, Any]]:
    """The kinds of pages and their pages, as the index lists them; then the pages beside docs/."""
    text = (root / INDEX).read_text(encoding="utf-8")
    kinds = [{title.strip(): list(_entries(body))} for title, body in _SECTION.findall(text)]
    beside = [{"Contributing": "CONTRIBUTING.md"}, {"Security": "SECURITY.md"}, {"Changes": "CHANGELOG.md"}]
    return [{"Holdfast": "index.md"}, {"All pages": place(INDEX)}, *kinds, {"Project": beside}]


def _entries(body: str) -> Iterator[dict[str, str]]:
    for title, link in _ITEM.findall(body):
        yield {" ".join(title.split()): place(f"docs/{link}")}


def settings(root: Path, pages: Path, site: Path) -> str:
    """The settings of the generator, with the folders and the navigation."""
    own = SETTINGS.read_text(encoding="utf-8")
    docs_dir, site_dir = (os.path.relpath(folder, BUILD) for folder in (pages, site))
    more = {"docs_dir": docs_dir, "site_dir": site_dir, "nav": navigation(root)}
    lines = "".join(f"{name} = {_toml(value)}\n" for name, value in more.items())
    return own.replace("[project]\n", f"[project]\n{lines}", 1)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(name)} = {_toml(one)}" for name, one in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)  # a text of JSON is one of TOML


def cut_off(site: Path) -> None:
    """Let no page load anything from the network. Raises DocsError if one still does."""
    for page in site.rglob("*.html"):
        own = _relative(SHIM.name, page.relative_to(site).as_posix())
        text = page.read_text(encoding="utf-8").replace(SHIM_ON_THE_WEB, own)
        page.write_text(text, encoding="utf-8")
        if loaded := _LOADED.search(text):
            what = loaded[1] or loaded[2]
            raise DocsError(f"{page.relative_to(site)} loads {what}; a page may load its own site only")


def build(site: Path) -> int:
    """Build the site. Returns the exit code of the generator; its messages say what is wrong. Raises DocsError."""
    pages = BUILD / "docs-pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.rmtree(site, ignore_errors=True)
    copy_pages(ROOT, pages)
    for asset in (STYLE, SHIM):
        shutil.copyfile(asset, pages / asset.name)
    made = BUILD / "zensical.toml"
    made.write_text(settings(ROOT, pages, site.absolute()), encoding="utf-8")
    program = Path(sys.executable).with_name("zensical")
    command = [str(program), "build", "--strict", "--clean", "--config-file", str(made)]
    code = subprocess.run(command, check=False).returncode
    if code == 0:
        cut_off(site)
    return code


def main() -> int:
    """Build the site into the folder on the command line."""
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD / "docs-site"
    try:
        return build(site)
    except DocsError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
