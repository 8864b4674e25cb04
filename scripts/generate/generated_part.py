"""The part of a page that is generated, between two marks. The rest of the page is written by hand."""

END = "<!-- end of the generated part -->\n"


def fill(page: str, source: str, text: str) -> str:
    """The page with `text`, which follows from the file or folder `source`, between its marks.

    Raises ValueError if the page has no such marks.
    """
    begin = f"<!-- The part below is generated from {source} by `make crds`. Do not edit it. -->\n"
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"the page needs the lines {begin.strip()} and {END.strip()}")
    return f"{before}{begin}{text}{END}{after}"
