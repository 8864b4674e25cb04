"""docs/reference/proved.md: the table of feature gates is made from the gates themselves."""

from scripts.generate.generated_part import fill

from holdfast_protocol.gates import GATES

SOURCE = "operator/protocol/holdfast_protocol/gates.py"


def filled(page: str) -> str:
    """The page with the table of today between its marks."""
    return fill(page, SOURCE, _table())


def _table() -> str:
    head = ("| gate | stage | since | what it is for | while it is off |", "|---|---|---|---|---|")
    rows = (f"| `{one.name}` | {one.stage} | {one.since} | {one.guards} | {one.off} |" for one in GATES)
    return "".join(f"{row}\n" for row in ("", *head, *rows, ""))
