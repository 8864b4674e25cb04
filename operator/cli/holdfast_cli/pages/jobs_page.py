"""The page of all jobs: totals, a filter, and a table of the first jobs in the chosen order."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from holdfast.api.objects import JOB_COLUMNS, TrainingJob
from holdfast.api.status import Phase
from holdfast_cli.pages import clock
from holdfast_cli.pages.page import Fragment, Page
from holdfast_cli.terminal import formats
from holdfast_model.pages.template import Markup, Template

ROWS: Final = 1000  # in the table
LONGEST_FILTER: Final = 200  # characters
ROWS_PLACE: Final = "job-rows"
"""Id of the element that holds the rows."""
TABLE: Final = "jobs-table"
FILTER: Final = "jobs-filter"
"""Id of the fragment that the user types into."""
_HTML: Final = Template(__name__)
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class JobRow:
    """What the table shows of one job."""

    namespace: str
    name: str
    phase: Phase | None
    reason: str
    tier: str
    node: str
    step: int
    steps: int | None
    eta: datetime | None
    spent: Decimal
    expected: Decimal | None
    slack: timedelta | None
    late: timedelta | None
    interruptions: int
    created: datetime | None

    @classmethod
    def of(cls, job: TrainingJob) -> "JobRow":
        """The row of a job."""
        status, meta, forecast = job.status, job.metadata, job.status.forecast
        return cls(
            namespace=meta.namespace,
            name=meta.name,
            phase=status.phase,
            reason=status.reason or "",
            tier=status.tier or "",
            node=status.node or "",
            step=status.progress.step,
            steps=status.progress.steps or job.spec.goal.steps,
            eta=None if status.is_over else status.progress.eta,
            spent=status.ledger.spent,
            expected=forecast.cost,
            slack=None if status.is_over else forecast.slack,
            late=None if status.is_over else forecast.late,
            interruptions=status.restarts.interruptions,
            created=meta.creation_timestamp,
        )

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def address(self) -> str:
        """Of its page."""
        return job_address(self.namespace, self.name)

    @property
    def share(self) -> float | None:
        """The done share, 0 to 1; None if the number of steps is unknown."""
        if self.phase is Phase.COMPLETED:
            return 1.0
        return min(self.step / self.steps, 1.0) if self.steps else None

    @cached_property
    def words(self) -> str:
        """What the filter looks into."""
        parts = (self.key, self.phase or "new", self.tier, self.node, self.reason)
        return " ".join(parts).lower()

    @cached_property
    def html(self) -> Markup:
        """The row without its namespace. It does not depend on the time."""
        return _row(self, COLUMNS)

    @cached_property
    def html_with_namespace(self) -> Markup:
        """The row with its namespace."""
        return _row(self, (NAMESPACE, *COLUMNS))


@dataclass(frozen=True)
class Column:
    """One column. `key` sorts by it: rows whose key is None come last."""

    name: str
    title: str
    key: Callable[[JobRow], Any]
    number: bool = False
    about: str = ""


def _phase_place(row: JobRow) -> int:
    """Phases in the order of a job's life; a job that is new comes first."""
    return list(Phase).index(row.phase) + 1 if row.phase else 0


def _room(row: JobRow) -> timedelta | None:
    return -row.late if row.late is not None else row.slack


_TEXTS: Final = ("Phase", "Tier")  # the others stand at the right side: times too
# What the columns sort by, of those that the page shows.
_KEYS: Final[Mapping[str, Callable[[JobRow], Any]]] = {
    "Phase": _phase_place,
    "Tier": lambda row: row.tier or None,
    "Step": lambda row: row.step,
    "Percent": lambda row: row.share,
    "ETA": lambda row: row.eta,
    "Cost": lambda row: row.spent,
    "Expected": lambda row: row.expected,
    "Slack": _room,
    "Interruptions": lambda row: row.interruptions,
    "Age": lambda row: row.created or _EPOCH,
}
_ABOUT: Final = {"ETA": "Time until the last step"}  # a page counts down to the time that kubectl writes
COLUMNS: Final = (
    Column("name", "Job", lambda row: (row.name, row.namespace)),
    *(
        Column(one.name.lower(), one.name, _KEYS[one.name], one.name not in _TEXTS, _ABOUT.get(one.name, one.about))
        for one in JOB_COLUMNS
        if one.name in _KEYS
    ),
)
NAMESPACE: Final = Column("namespace", "Namespace", lambda row: (row.namespace, row.name))
_SORTS: Final = {column.name: column for column in (NAMESPACE, *COLUMNS)}


@dataclass(frozen=True)
class Query:
    """What is asked of the table: words that a job must have, and the order."""

    filter: str = ""
    sort: str = "age"
    down: bool = True
    """Highest values first."""

    @classmethod
    def parse(cls, text: str, sort: str) -> "Query":
        """The query of an address; an order that does not exist is the default one. `-cost` is down by cost."""
        name = sort.removeprefix("-")
        words = " ".join(text[:LONGEST_FILTER].split())
        return cls(words, name, sort.startswith("-")) if name in _SORTS else cls(words)

    def address(self, **changes: str) -> str:
        """The address of the page with this query, changed."""
        parts = {"filter": self.filter, "sort": f"{'-' if self.down else ''}{self.sort}"} | changes
        parts = {name: value for name, value in parts.items() if value and (name, value) != ("sort", "-age")}
        return f"/jobs?{urlencode(parts)}" if parts else "/jobs"

    def chosen(self, rows: Iterable[JobRow]) -> list[JobRow]:
        """The rows that have all words, in order."""
        words = self.filter.lower().split()
        found = [row for row in rows if all(word in row.words for word in words)] if words else list(rows)
        key = _SORTS[self.sort].key
        known = [row for row in found if key(row) is not None]
        known.sort(key=lambda row: row.key)
        known.sort(key=key, reverse=self.down)
        return known + sorted((row for row in found if key(row) is None), key=lambda row: row.key)


@dataclass(frozen=True)
class Jobs:
    """What is known of the jobs. `unreadable`: where and why; `total`: how many there are, also those not read yet."""

    rows: Sequence[JobRow]
    unreadable: Sequence[tuple[str, str]] = ()
    total: int = 0
    namespace: str | None = None
    """None: of all namespaces."""


def jobs_page(jobs: Jobs, query: Query) -> tuple[Page, list[Fragment]]:
    """The page with an empty table, and the rows of the table. `filled` puts them in."""
    found = query.chosen(jobs.rows)
    namespaces = jobs.namespace is None
    columns = (NAMESPACE, *COLUMNS) if namespaces else COLUMNS
    rows = [Fragment(row.key, row.html_with_namespace if namespaces else row.html) for row in found[:ROWS]]
    fragments = (
        Fragment("jobs-head", _head(jobs)),
        Fragment(FILTER, _filter(query)),
        Fragment("jobs-count", _count(jobs, query, len(found))),
        Fragment(TABLE, _HTML.table(heads=[_head_of(one, query) for one in columns], body=_body())),
        Fragment("jobs-unreadable", _HTML.unreadable(list(_unreadable(jobs)))),
    )
    return Page("Jobs", fragments), rows


def filled(page: Page, rows: Sequence[Fragment]) -> Page:
    """The page with its rows."""
    fragments = (
        Fragment(TABLE, one.html.replace(_body(), _body(row.html for row in rows))) if one.id == TABLE else one
        for one in page.fragments
    )
    return replace(page, fragments=tuple(fragments))


def _body(rows: Iterable[Markup] = ()) -> Markup:
    return _HTML.body(id=ROWS_PLACE, rows=Markup().join(rows))


class _PhaseCount(NamedTuple):
    """How many jobs are in a phase, and the page that shows them."""

    phase: str
    jobs: str
    address: str


def _head(jobs: Jobs) -> Markup:
    counts = Counter(row.phase for row in jobs.rows)
    phases = [
        _PhaseCount(
            str(phase or "New"), formats.count(counts[phase]), Query(filter=str(phase or "new").lower()).address()
        )
        for phase in (None, *Phase)
        if counts[phase]
    ]
    spent = sum((row.spent for row in jobs.rows), Decimal(0))
    expected = sum((row.expected or row.spent for row in jobs.rows), Decimal(0))
    late = sum(row.late is not None for row in jobs.rows)
    totals = [
        ("jobs", formats.count(len(jobs.rows))),
        ("spent", formats.money(spent)),
        ("expected in the end", formats.money(expected)),
        ("interruptions", formats.count(sum(row.interruptions for row in jobs.rows))),
        ("late", formats.count(late)),
    ]
    return _HTML.head(totals=totals, phases=phases)


def _filter(query: Query) -> Markup:
    return _HTML.filter(words=query.filter, sort=f"{'-' if query.down else ''}{query.sort}", longest=LONGEST_FILTER)


def _count(jobs: Jobs, query: Query, found: int) -> Markup:
    shown, all_read = min(found, ROWS), len(jobs.rows)
    parts = []
    if query.filter:
        parts.append(f"{formats.count(found)} of {formats.count(all_read)} jobs match")
    if shown < found:
        first = "newest " if (query.sort, query.down) == ("age", True) else ""
        rest = formats.count(found - shown)
        parts.append(f"the {first or 'first '}{formats.count(shown)} are shown, {rest} more are not: type a filter")
    if (waiting := jobs.total - all_read - len(jobs.unreadable)) > 0:
        parts.append(f"{formats.count(waiting)} are being read")
    if not jobs.total:
        where = f"namespace {jobs.namespace}" if jobs.namespace else "any namespace"
        parts.append(f"no training jobs in {where}")
    return _HTML.counted("; ".join(parts))


class _Head(NamedTuple):
    """The head of a column. `order`: as of `aria-sort`, if the table is sorted by it; `address`: sorts by it."""

    name: str
    title: str
    about: str
    number: bool
    order: str
    address: str


def _head_of(column: Column, query: Query) -> _Head:
    is_sorted = column.name == query.sort
    # ages count from the creation: the newest job is the youngest
    turned = query.down != (column.name == "age")
    down = not query.down if is_sorted else column.number
    return _Head(
        name=column.name,
        title=column.title,
        about=column.about,
        number=column.number,
        order=("descending" if turned else "ascending") if is_sorted else "",
        address=query.address(sort=f"{'-' if down else ''}{column.name}"),
    )


def job_address(namespace: str, name: str) -> str:
    """The address of a job's page."""
    return f"/jobs/{quote(namespace, safe='')}/{quote(name, safe='')}"


def _row(row: JobRow, columns: Sequence[Column]) -> Markup:
    slack_kind = "bad" if row.late is not None else "warn" if row.slack == timedelta(0) else ""
    figures = {
        "tier": row.tier or formats.NOTHING,
        "step": formats.count(row.step),
        "steps": formats.count(row.steps) if row.steps else "",
        "percent": formats.NOTHING if row.share is None else f"{row.share * 100:.1f}%",
        "eta": clock.left(row.eta),
        "cost": formats.money(row.spent),
        "expected": formats.NOTHING if row.expected is None else formats.money(row.expected),
        "slack": formats.span(row.slack) if row.late is None else f"late by {formats.span(row.late)}",
        "slack_kind": slack_kind,
        "interruptions": str(row.interruptions),
        "age": clock.age(row.created),
    }
    return _HTML.row(row, columns=[one.name for one in columns], figures=figures)


def _unreadable(jobs: Jobs) -> Iterable[tuple[str, str]]:
    """Where, and the first line of why."""
    return ((where, why.splitlines()[0] if why else "") for where, why in jobs.unreadable[:ROWS])
