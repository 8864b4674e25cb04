"""Shell completion of checkpoints: it never fails and never waits long."""

import threading
from pathlib import Path
from typing import Any

import typer

from holdfast.api.errors import HoldfastError
from holdfast_cli.checkpoints.pick import LATEST
from holdfast_cli.cluster.completion import PATIENCE

_FLAGS = {
    "namespace": ("-n", "--namespace"),
    "kubeconfig": ("--kubeconfig",),
    "endpoint": ("--endpoint",),
    "region": ("--region",),
    "ca": ("--ca",),
    "proxy": ("--proxy",),
    "addressing": ("--addressing",),
}
_KINDS: dict[str, Any] = {"kubeconfig": Path, "ca": Path}
_WITH_VALUE = {flag for flags in _FLAGS.values() for flag in flags}


def checkpoints(context: typer.Context, incomplete: str) -> list[str]:
    """`latest`, and the steps that are committed at the place on the command line."""
    found: list[str] = [LATEST]
    if place := context.params.get("place") or _first(context.args):
        # In a daemon thread: the time limits of the clients in it are longer than PATIENCE.
        thread = threading.Thread(target=_read, args=(context, str(place), found), daemon=True)
        thread.start()
        thread.join(PATIENCE)
    return [text for text in tuple(found) if text.startswith(incomplete)]


def _first(words: list[str]) -> str | None:
    places = (i for i, word in enumerate(words) if not word.startswith("-"))
    return next((words[i] for i in places if i == 0 or words[i - 1] not in _WITH_VALUE), None)


def _option(context: typer.Context, name: str) -> str | None:
    if given := context.params.get(name):
        return str(given)
    words = context.args
    return next((words[i + 1] for i, word in enumerate(words[:-1]) if word in _FLAGS[name]), None)


def _read(context: typer.Context, place: str, found: list[str]) -> None:
    # Imported here: completing the name of a job does not need it.
    from holdfast_cli.checkpoints.survey import newest_state  # noqa: PLC0415
    from holdfast_cli.storage.address import Where, opened  # noqa: PLC0415

    given: dict[str, Any] = {name: _option(context, name) for name in _FLAGS}
    where = Where(place, **{name: _KINDS.get(name, str)(value) for name, value in given.items() if value})
    try:
        with opened(where) as (_, storage):
            found.extend(str(commit.step) for commit in reversed(newest_state(storage).every))
    except (HoldfastError, OSError):
        return
