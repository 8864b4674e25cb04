"""The columns of jobs in k9s, as docs/how-to/k9s.md has them: those that both kubectl and `holdfast watch` show."""

import re
from collections.abc import Iterator

from holdfast.api.names import GROUP, JOB_PLURAL, VERSION
from holdfast.api.objects import JOB_COLUMNS, JobColumn
from holdfast_cli.jobs import view

_WIDE = ("Node", "Reason")  # long texts; the loss, which kubectl hides too, has room in k9s
_BLOCK = re.compile(r"(?<=```yml\n)views:\n.*?(?=```)", re.DOTALL)


def views() -> str:
    """The content of views.yaml."""
    lines = [f"  {GROUP}/{VERSION}/{JOB_PLURAL}:", "    sortColumn: NAME:asc", "    columns:"]
    return "".join(f"{line}\n" for line in ["views:", *lines, *(f"      - {one}" for one in _columns())])


def _columns() -> Iterator[str]:
    watched = {column.title for column in view.COLUMNS}
    yield from ("NAMESPACE", "NAME")
    for one in JOB_COLUMNS:
        if one.path and one.name.upper() in watched:
            yield "AGE" if one.kind == "date" else _column(one)


def _column(one: JobColumn) -> str:
    marks = ("R" if one.number else "") + ("W" if one.name in _WIDE else "")
    return f"{one.name.upper()}:{one.path}" + (f"|{marks}" if marks else "")


def put_into(page: str) -> str:
    """The page with the block. ValueError if the page has none, or several."""
    made, count = _BLOCK.subn(lambda _: views(), page)
    if count != 1:
        raise ValueError(f"docs/how-to/k9s.md has {count} blocks `views`; allowed: 1")
    return made
