"""docs/reference/metrics.md: the table of the metrics of jobs is made from the metrics themselves."""

from scripts.generate.generated_part import fill

from holdfast.serve.collectors import FAMILIES, LABELS, Family

SOURCE = "operator/holdfast/serve/collectors.py"


def filled(page: str) -> str:
    """The page with the table of today between its marks."""
    return fill(page, SOURCE, table())


def table() -> str:
    """A row for each metric of jobs."""
    head = ("| metric | type | further labels | what it is |", "|---|---|---|---|")
    return "".join(f"{row}\n" for row in ("", *head, *map(_row, FAMILIES), ""))


def _row(family: Family) -> str:
    labels = ", ".join(f"`{name}`" for name in family.labels if name not in LABELS)
    kind = "counter" if family.counter else "gauge"
    cells = (f"`{family.full_name}`", kind, labels, family.text)
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")
