"""The pages of the site are those of the repository, with links that lead to pages of the site."""

import json
import tomllib
from pathlib import Path

import pytest
from scripts.docs_site import __main__ as site

PAGES = {
    "README.md": "# Top\n\n![p](docs/images/demo.svg) [all](docs/README.md#how-to-guides) [out](https://x.example/y.md)\n",
    "CONTRIBUTING.md": "# C\n",
    "SECURITY.md": "# S\n",
    "CHANGELOG.md": "# L\n",
    "images/trainer/README.md": "# T\n",
    "docs/README.md": '# D\n\n## How-to guides\n\n- [Do "it"](how-to/do.md): x\n\n## Concepts\n\n- [Why](why.md): y\n',
    "docs/why.md": "# W\n\n[back](README.md), [up](../README.md), [list](../CHANGELOG.md)\n",
    "docs/how-to/do.md": "# Do\n\n[e](../../examples/e.yaml#L3)\n\n```sh\n[not a link](nowhere.md)\n```\n",
    "examples/e.yaml": "a: 1\n```\n",
    "docs/images/demo.svg": "<svg/>",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in PAGES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def made(root: Path, name: str) -> str:
    site.copy_pages(root, root / "build")
    return (root / "build" / name).read_text()


# Breaks if a link of a page leads to a file that the site does not have.
def test_links_lead_to_pages_of_the_site(root: Path) -> None:
    top = made(root, "index.md")
    assert "[all](docs/index.md#how-to-guides)" in top
    assert "[out](https://x.example/y.md)" in top
    assert "[back](index.md), [up](../index.md), [list](../CHANGELOG.md)" in made(root, "docs/why.md")
    assert (root / "build/docs/images/demo.svg").exists()


# Breaks if a link to an example is dead in the site, or if what stands in a block of code is changed.
def test_a_file_that_is_no_page_becomes_one(root: Path) -> None:
    page = made(root, "docs/how-to/do.md")
    assert "[e](../../examples/e.yaml.md)" in page
    assert "[not a link](nowhere.md)" in page
    assert made(root, "examples/e.yaml.md") == "# examples/e.yaml\n\n````yaml\na: 1\n```\n````\n"


@pytest.mark.parametrize("link", ["gone.md", "../../outside.md", "images"])
def test_a_dead_link_is_an_error(root: Path, link: str) -> None:
    (root / "docs/why.md").write_text(f"# W\n\n[x]({link})\n")
    with pytest.raises(site.DocsError, match=f"docs/why.md: the link {link} leads to no file"):
        made(root, "index.md")


# Breaks if a notebook is not a page of the site, or its text, code or commands are not shown as what they are.
def test_a_notebook_is_a_page(root: Path) -> None:
    text = {"cell_type": "markdown", "source": ["# Note\n", "\n", "[up](../README.md)"]}
    code = {"cell_type": "code", "source": "x = '[no](link.md)'\n!holdfast list\nx", "outputs": [{"text": "seen"}]}
    (root / "docs/how-to/note.ipynb").write_text(json.dumps({"cells": [text, code]}))
    (root / "docs/why.md").write_text("# W\n\n[note](how-to/note.ipynb#a)\n")
    blocks = "```py\nx = '[no](link.md)'\n```\n\n```sh\nholdfast list\n```\n\n```py\nx\n```\n"
    assert made(root, "docs/how-to/note.md") == f"# Note\n\n[up](../index.md)\n\n{blocks}"
    assert "[note](how-to/note.md#a)" in made(root, "docs/why.md")


# Breaks if a page of the index is not in the navigation, or a title breaks the settings.
def test_the_navigation_is_the_index(root: Path) -> None:
    found = tomllib.loads(site.settings(root, site.BUILD / "p", site.BUILD / "s"))["project"]
    assert (found["docs_dir"], found["site_dir"]) == ("p", "s")
    assert found["nav"][2:4] == [
        {"How-to guides": [{'Do "it"': "docs/how-to/do.md"}]},
        {"Concepts": [{"Why": "docs/why.md"}]},
    ]


def test_every_page_of_this_repository_is_in_the_navigation() -> None:
    listed = str(site.navigation(site.ROOT))
    pages = [site.place(name) for name in site.page_names(site.ROOT) if name != "images/trainer/README.md"]
    assert [page for page in pages if f"'{page}'" not in listed] == []


# Breaks if a page of the site loads a script or a font from the network when it is read.
def test_no_page_may_load_anything_from_the_network(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "x.html"
    page.parent.mkdir()
    page.write_text(f'<a href="https://x.example">x</a><script src="{site.SHIM_ON_THE_WEB}"></script>')
    site.cut_off(tmp_path)
    assert '<script src="../iframe-worker.js">' in page.read_text()
    page.write_text('<link rel="stylesheet" href="https://fonts.example/f.css">')
    with pytest.raises(site.DocsError, match=r"loads https://fonts\.example/f\.css"):
        site.cut_off(tmp_path)
