"""Pages as Markdown: a notebook is the page that its cells make. The tests of the pages read them so too."""

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path


def markdown(page: Path) -> str:
    """The text of a page. Of a notebook: its texts, its code as blocks of Python, and its commands as those of a shell.

    What the cells showed when they ran is left out. Raises ValueError if the page is a notebook that cannot be read.
    """
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    parts = (part for cell in json.loads(text)["cells"] for part in _parts(cell["cell_type"], "".join(cell["source"])))
    return "\n\n".join(parts) + "\n"


def _parts(kind: str, source: str) -> Iterator[str]:
    """A cell of texts as it is, one of code as blocks."""
    if kind != "code":
        yield source
        return
    for is_command, lines in groupby(source.splitlines(), lambda line: line.startswith("!")):
        language = "sh" if is_command else "py"
        block = "\n".join(line.removeprefix("!") for line in lines).strip("\n")
        yield f"```{language}\n{block}\n```"
