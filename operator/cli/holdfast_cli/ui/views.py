"""What an address shows: the page of it, drawn again from what the cluster holds whenever that is asked."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qs, urlsplit

from holdfast_cli.pages.jobs_page import LONGEST_FILTER, Query, jobs_page
from holdfast_cli.pages.tiers_page import tiers_page
from holdfast_cli.ui.cluster import Cluster
from holdfast_cli.ui.drawn import Drawn, View
from holdfast_cli.ui.job_view import job_view
from holdfast_cli.ui.readings import Readings

LONGEST: Final = LONGEST_FILTER * 6 + 400  # characters of an address: a filter may be percent-encoded


class JobsView:
    """All jobs."""

    path = "/jobs"
    has_ages = False

    def __init__(self, cluster: Cluster, query: Query) -> None:
        self._cluster = cluster
        self._query = query

    async def draw(self) -> Drawn:
        """The page now."""
        return Drawn(*jobs_page(self._cluster.jobs(), self._query))


class TiersView:
    """All profiles."""

    path = "/tiers"
    has_ages = False

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def draw(self) -> Drawn:
        """The page now."""
        return Drawn(tiers_page(self._cluster.tiers()))


@asynccontextmanager
async def view_of(cluster: Cluster, readings: Readings, address: str) -> AsyncIterator[View | None]:
    """The view of an address such as `/jobs?filter=running`; None if there is none. Close it when it is not shown."""
    try:
        parts = urlsplit(address[:LONGEST])
    except ValueError:  # such as //[
        yield None
        return
    given = {name: values[0] for name, values in parse_qs(parts.query).items()}
    match parts.path.split("/")[1:]:
        case ["jobs"]:
            yield JobsView(cluster, _query(given))
        case ["tiers"]:
            yield TiersView(cluster)
        case ["jobs", namespace, name]:
            async with job_view(cluster, readings, namespace, name) as view:
                yield view
        case _:
            yield None


def _query(given: Mapping[str, str]) -> Query:
    return Query.parse(given.get("filter", ""), given.get("sort", "-age"))
