"""docs/reference/proved.md: the table of feature gates is made from the gates themselves."""

from holdfast_protocol.gates import GATES

SOURCE = "operator/protocol/holdfast_protocol/gates.py"
BEGIN = f"<!-- The table is generated from {SOURCE} by `make crds`. Do not edit it. -->\n"
END = "<!-- end of the table -->\n"


def filled(page: str) -> str:
    """The page with the table of today between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{_table()}{END}{after}"


def _table() -> str:
    head = ("| gate | stage | since | what it is for | while it is off |", "|---|---|---|---|---|")
    rows = (f"| `{one.name}` | {one.stage} | {one.since} | {one.guards} | {one.off} |" for one in GATES)
    return "".join(f"{row}\n" for row in ("", *head, *rows, ""))
