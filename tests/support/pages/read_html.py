"""What a browser would make of a page, for tests: elements with their attributes, and the text between them."""

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "input", "col", "img"}


class Read(HTMLParser):
    """A page that was read. ValueError if its elements are not nested as they should be."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(str(html))  # a plain text: parts of Markup are Markup
        self.close()
        if self._open:
            raise ValueError(f"not closed: {self._open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            raise ValueError(f"closed, but not open: {tag}")

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        """All of it, with single blanks."""
        return " ".join(" ".join(self.texts).split())

    @property
    def tags(self) -> set[str]:
        """The names of all elements."""
        return {tag for tag, _ in self.elements}

    @property
    def ids(self) -> list[str]:
        """In the order of the page."""
        return [attributes["id"] or "" for _, attributes in self.elements if "id" in attributes]

    @property
    def links(self) -> list[str]:
        """Pages of other servers that a reader may open, and that learn nothing of this one."""
        return [
            str(attributes["href"])
            for tag, attributes in self.elements
            if tag == "a" and attributes.get("rel") == "noopener noreferrer" and _is_web(attributes.get("href"))
        ]

    def breaches(self) -> list[str]:
        """What no page may have: inline styles and handlers, and addresses outside of the page, but for `links`."""
        found = []
        for tag, attributes in self.elements:
            for name, value in attributes.items():
                if name == "style" or name.startswith("on"):
                    found.append(f"<{tag} {name}>")
                if name == "href" and value in self.links:
                    continue
                if name in ("src", "href", "action", "data", "poster") and not re.fullmatch(r"/[a-z.]+", value or ""):
                    found.append(f"<{tag} {name}={value}>")
        return found


def _is_web(address: str | None) -> bool:
    return (address or "").startswith(("http://", "https://"))
