"""Templates of HTML, which escape: the one place that loads them."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Markup", "Template"]

_BREAK: Final = re.compile(r"\A\s*\n\s*|\s*\n\s*\Z|(?<=>)\s*\n\s*|\s*\n\s*(?=<)")
_WORDS: Final = re.compile(r"\s*\n\s*")


class Template:
    """The template beside a module: its macros as functions that return Markup. `jobs_page.html` for jobs_page.py.

    The template is loaded at the first call, and with it jinja2, which takes 50 ms. Every value is escaped, unless it
    is Markup: what another macro made. A name that a template does not know is an error, never an empty text.
    """

    def __init__(self, module: str) -> None:
        package, _, name = module.rpartition(".")
        self._name = f"{package}/{name}.html"

    def __getattr__(self, macro: str) -> Callable[..., Markup]:
        """AttributeError if the template has no such macro."""
        found: Callable[..., Markup] = getattr(_environment().get_template(self._name).module, macro)
        setattr(self, macro, found)  # the next access is a plain one
        return found


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415 - only where a page is made
    from jinja2.ext import Extension  # noqa: PLC0415
    from jinja2.lexer import Token, TokenStream  # noqa: PLC0415

    class Layout(Extension):
        """A line break with the blanks around it is layout of the file: nothing beside a tag, a blank in a text."""

        def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
            """Called by jinja2."""
            for token in stream:
                text = _WORDS.sub(" ", _BREAK.sub("", token.value)) if token.type == "data" else token.value
                yield Token(token.lineno, token.type, text)

    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(_source),
        extensions=[Layout],
        auto_reload=False,
    )


def _source(name: str) -> str:
    package, _, file = name.partition("/")
    return (files(package) / file).read_text(encoding="utf-8")
