"""The files that a page needs: styles and scripts, from the data of this package."""

from functools import cache
from importlib.resources import files
from typing import Final

from holdfast_model.pages.document import BASE

UPLOT: Final = "uPlot-1.6.32"  # the folder has the files of its npm package as they are
_PARTS: Final = {
    "page.css": (f"{UPLOT}/uPlot.min.css", "page.css"),
    "page.js": ("page.js",),
    "uplot.js": (f"{UPLOT}/uPlot.iife.min.js",),
    "live.js": ("live.js",),
    "enter.html": ("enter.html",),
    "enter.js": ("enter.js",),
    "icon.svg": ("icon.svg",),
    "live.css": ("live.css",),
}


@cache
def asset(name: str) -> bytes:
    """The file that a page calls `name`. KeyError if pages need no such file."""
    folder = files(__package__) / "files"
    parts = [(folder / part).read_bytes() for part in _PARTS[name]]
    if name == "page.css":
        parts.insert(1, BASE.read_bytes())
    if name == "uplot.js":  # its licence goes wherever the program goes
        parts.insert(0, b"/*!\n" + (folder / UPLOT / "LICENSE").read_bytes() + b"*/\n")
    return b"\n".join(parts)
