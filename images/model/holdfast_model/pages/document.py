"""The frame of a page, and the file that it is written to."""

import base64
import errno
import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Final

__all__ = ["BASE", "check_writable", "document", "sealed", "shell", "write_whole"]

BASE: Final = Path(__file__).with_name("base.css")  # the first rules of every page
STYLE: Final = Path(__file__).with_name("page.css")
SHELL: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{policy}<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
{styles}
</head>
<body>
<main>
{sections}
</main>
{scripts}</body>
</html>
"""


def document(title: str, sections: Iterable[str], style: Path = STYLE) -> str:
    """The whole page of a report. `sections`: HTML. `style`: its rules after BASE. The browser runs no script of it."""
    body = [f"<section>{section}</section>" for section in sections if section]
    return sealed(title, body, "".join(path.read_text(encoding="utf-8") for path in (BASE, style)))


def sealed(title: str, sections: Iterable[str], style: str, programs: Sequence[str] = (), data: str = "") -> str:
    """A page that is one file: the browser runs these `programs` alone, and asks nothing of any network.

    `data`: HTML that the programs read, before them.
    """
    rule = f"default-src 'none'; img-src data:; style-src {_hash(style)}"
    if programs:
        rule += f"; script-src {' '.join(map(_hash, programs))}"
    policy = f'<meta http-equiv="Content-Security-Policy" content="{rule}">\n'
    scripts = [*([data] if data else []), *(f"<script>{program}</script>" for program in programs)]
    return shell(title, sections, f"<style>{style}</style>", scripts, policy)


def shell(title: str, sections: Iterable[str], styles: str, scripts: Iterable[str], policy: str = "") -> str:
    """What all pages have around their sections. All but the title is HTML."""
    return SHELL.format(
        policy=policy,
        title=escape(title),
        styles=styles,
        sections="\n".join(sections),
        scripts="".join(f"{script}\n" for script in scripts),
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def check_writable(folder: Path) -> None:
    """OSError if this folder, which may be missing, cannot be written to: to be known before hours of work."""
    place = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    number = errno.ENOTDIR if not place.is_dir() else 0 if os.access(place, os.W_OK | os.X_OK) else errno.EACCES
    if number:
        raise OSError(number, os.strerror(number), str(place))


def write_whole(path: Path, text: str) -> None:
    """Write the file whole or not at all, also if the program is interrupted."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        fresh.write_text(text, encoding="utf-8", errors="backslashreplace")  # names of files may be any bytes
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
