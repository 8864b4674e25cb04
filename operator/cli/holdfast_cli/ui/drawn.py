"""A page as it is drawn at one moment: its parts, to find those that changed, and the document."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast_cli.pages.document import as_json, document
from holdfast_cli.pages.frame import Frame, banner, framed
from holdfast_cli.pages.jobs_page import FILTER, filled
from holdfast_cli.pages.page import Fragment, Page
from holdfast_model.pages.template import Markup


@dataclass(frozen=True)
class Drawn:
    """A page without its frame, and the rows of its table if it has a long one."""

    page: Page
    rows: Sequence[Fragment] = ()
    actions: Markup = Markup()

    def parts(self, trouble: str) -> dict[str, str]:
        """The fragments that may change while the page is open. What the user types into is left out."""
        parts: dict[str, str] = {"banner": banner(trouble), "actions": self.actions}
        return parts | {one.id: one.html for one in self.page.fragments if one.id != FILTER}

    def charts(self) -> str:
        """The charts as JSON."""
        return as_json(self.page.charts)

    def stamp(self, trouble: str) -> str:
        """Stands for everything that may change."""
        digest = hashlib.blake2b(digest_size=12)
        for text in (*self.parts(trouble).values(), *(row.html for row in self.rows), self.charts()):
            digest.update(text.encode(errors="surrogatepass"))
            digest.update(b"\0")
        return digest.hexdigest()

    def document(self, here: str, scope: str, trouble: str) -> str:
        """The whole document, with the rows."""
        page = filled(self.page, self.rows) if self.rows else self.page
        return document(framed(page, Frame(here, scope, trouble, self.stamp(trouble), self.actions)), live=True)


class View(Protocol):
    """What one address shows."""

    path: str
    has_ages: bool
    """True if the page changes when time passes, even if nothing else does."""

    async def draw(self) -> Drawn | None:
        """The page now; None if what it shows is not there."""
