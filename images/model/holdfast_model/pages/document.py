"""The frame of a page, and the file that it is written to."""

import base64
import errno
import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast_model.pages.template import Markup, Template

BASE: Final = Path(__file__).with_name("base.css")  # the first rules of every page
STYLE: Final = Path(__file__).with_name("page.css")
Section = tuple[str, Markup]
"""The id of a part of the page, empty if it has none, and its content."""
_HTML: Final = Template(__name__)


def document(title: str, sections: Iterable[Markup], style: Path = STYLE) -> str:
    """The whole page of a report. `style`: its rules after BASE. The browser runs no script of it."""
    rules = "".join(path.read_text(encoding="utf-8") for path in (BASE, style))
    return sealed(title, [("", section) for section in sections if section], rules)


def sealed(title: str, sections: Sequence[Section], style: str, programs: Sequence[str] = (), data: str = "") -> str:
    """A page that is one file: the browser runs these `programs` alone, and asks nothing of any network.

    `style` and `programs`: files of these packages. `data`: JSON that the programs read, as of `as_json`.
    """
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}"
    if programs:
        policy += f"; script-src {' '.join(map(_hash, programs))}"
    own = {"style": Markup(style), "programs": list(map(Markup, programs))}  # noqa: S704 - files of these packages
    return str(_HTML.page(title, sections, policy=policy, data=data, **own))


def served(title: str, sections: Sequence[Section], sheet: str, addresses: Sequence[str], data: str) -> str:
    """A page that takes its style and its programs from these addresses of its server. `data`: as of `sealed`."""
    return str(_HTML.page(title, sections, sheet=sheet, addresses=addresses, data=data))


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
