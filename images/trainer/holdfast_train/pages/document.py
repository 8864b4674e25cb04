"""The frame of a page, and the file that it is written to."""

import base64
import errno
import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Final

__all__ = ["check_writable", "document", "write_whole"]

STYLE: Final = Path(__file__).with_name("page.css")
SHELL: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src {hash}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{sections}
</main>
</body>
</html>
"""


def document(title: str, sections: Iterable[str], style: Path = STYLE) -> str:
    """The whole page. `sections`: HTML. `style`: its style sheet.

    The browser runs no script of it, and asks nothing of any network.
    """
    rules = style.read_text(encoding="utf-8")
    sealed = base64.b64encode(hashlib.sha256(rules.encode()).digest()).decode()
    body = "\n".join(f"<section>{section}</section>" for section in sections if section)
    return SHELL.format(hash=f"'sha256-{sealed}'", title=escape(title), style=rules, sections=body)


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
