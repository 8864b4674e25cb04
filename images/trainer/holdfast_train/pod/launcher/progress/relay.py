"""Progress of a program without Holdfast's library: by the status protocol of Kubeflow's TrainJob, or by its output.

The address of its run in a tracker goes the same way: from the launcher, or from the output. So of a program with the
library too, the launcher reports that address.

Hugging Face's Trainer posts its status inside its training loop, and waits up to 5 s for the answer. So the launcher
answers each post itself, at once, and reports the newest progress to the operator in a thread of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast_protocol import settings, tracking, variables

from ..tee import OnData

if TYPE_CHECKING:
    from .output_progress import OutputProgress

SERVER_URL, SERVER_TOKEN = "KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_TOKEN"
_GIVEN = (SERVER_URL, SERVER_TOKEN, "KUBEFLOW_TRAINER_SERVER_CA_CERT")
_NEEDED = (variables.NAMESPACE, variables.JOB, variables.ATTEMPT)
_PROXIES, _NO_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"), ("no_proxy", "NO_PROXY")
TOKEN_FILE = "progress-token"  # noqa: S105 - a name; a file beside the verdicts
Note = Callable[[Mapping[str, str]], None]
ADDRESS = "127.0.0.1"


def has_operator(environment: Mapping[str, str]) -> bool:
    """True if there is an operator to report to."""
    return bool(settings.read(environment).operator_url) and all(map(environment.get, _NEEDED))


def is_wanted(environment: Mapping[str, str]) -> bool:
    """True if there is an operator to report to, and the user has neither chosen another server nor switched it off."""
    is_off = environment.get("DISABLE_KUBEFLOW_INTEGRATION", "").upper() == "TRUE"
    return has_operator(environment) and not is_off and not any(name in environment for name in _GIVEN)


@contextlib.contextmanager
def progress(
    environment: Mapping[str, str], folder: str | None
) -> Iterator[tuple[dict[str, str], tuple[OnData | None, OnData | None]]]:
    """Relay the progress of one program. Yields its environment, and what gets its standard output and error.

    Once the program has reported by the protocol, no metrics are read from its output.
    """
    if not has_operator(environment):
        yield dict(environment), (None, None)
        return
    from .forwarder import Forwarder  # noqa: PLC0415 - only a program with an operator needs its imports

    forwarder = Forwarder(environment)
    offer, output = _to_all([*_notes(environment, folder), forwarder.offer]), None
    if variables.is_first(environment):
        if url := environment.get(variables.MLFLOW_RUN_URL):
            forwarder.track(tracking.MLFLOW, url)
        output = output_progress(environment, offer, partial(forwarder.track, tracking.WANDB))
    on_report = output.give_way if output else lambda: None
    try:
        with progress_relay(environment, folder, offer, on_report) as changed:
            yield changed, (output.add_out, output.add_err) if output else (None, None)
    finally:
        if output:
            output.finish()
        forwarder.finish()


def output_progress(environment: Mapping[str, str], offer: Note, track: Callable[[str], None]) -> OutputProgress | None:
    """The reader of one program's output; None if there is nothing to look for.

    `offer` gets the metrics, and `track` the address of the run of Weights & Biases. They must not block.
    """
    own = settings.read(environment)
    if not own.patterns and not own.wandb:
        return None
    from ..verdict_files import say  # noqa: PLC0415 - other jobs need none of these imports
    from .output_progress import OutputProgress  # noqa: PLC0415
    from .patterns import Pattern, patterns_of  # noqa: PLC0415

    patterns: list[Pattern] = []
    try:
        patterns = patterns_of(own.patterns)
    except (ValueError, KeyError, TypeError) as error:
        say(f"progress.patterns cannot be read ({error}); no progress is read from the output")
        if not own.wandb:
            return None
    return OutputProgress(patterns, offer, track if own.wandb else None)


def _notes(environment: Mapping[str, str], folder: str | None) -> list[Note]:
    """Other receivers of the metrics: the history of the training, and what looks for hangs."""
    notes: list[Note] = []
    own = settings.read(environment)
    if own.folder and folder is not None:
        from .noted_progress import NotedProgress  # noqa: PLC0415 - of other jobs nobody writes the history here

        notes.append(NotedProgress(folder).note)
    if own.stall and folder is not None:
        from .told_steps import ToldSteps  # noqa: PLC0415 - a program that is not watched needs none of its imports

        notes.append(ToldSteps(folder, environment.get(variables.GOAL_STEPS, "")).note)
    return notes


def _to_all(notes: list[Note]) -> Note:
    def note(metrics: Mapping[str, str]) -> None:
        for one in notes:
            one(metrics)

    return note


@contextlib.contextmanager
def progress_relay(
    environment: Mapping[str, str],
    folder: str | None,
    offer: Note = lambda _: None,
    on_report: Callable[[], None] = lambda: None,
) -> Iterator[dict[str, str]]:
    """Relay the progress of one program. Yields the program's environment. `folder`: where the token file is written.

    `offer` gets the metrics of each status, and `on_report` is called with each; they must not block.

    The port is open to all containers of the pod, and the token only to this one.
    """
    if folder is None or not is_wanted(environment):
        yield dict(environment)
        return
    from ..verdict_files import say  # noqa: PLC0415
    from . import kubeflow  # noqa: PLC0415 - only a program with an operator needs its imports
    from .status_server import StatusServer  # noqa: PLC0415

    token, path = os.urandom(32).hex(), Path(folder, TOKEN_FILE)
    try:
        _write(path, token)

        def take(status: dict[str, Any]) -> None:
            on_report()
            offer(kubeflow.metrics_of(status))

        status_path = kubeflow.PATH.format(environment[variables.NAMESPACE], environment[variables.JOB])
        server = StatusServer(ADDRESS, status_path, token, take)
    except OSError as error:
        say(f"progress of a program without Holdfast's library is not relayed: {error}")
        yield dict(environment)
        return
    try:
        server.start()
        address = {SERVER_URL: f"http://{ADDRESS}:{server.port}{status_path}", SERVER_TOKEN: str(path)}
        yield {**environment, **without_proxy(environment), **address}
    finally:
        server.stop()
        path.unlink(missing_ok=True)


def same_in_each_attempt(environment: Mapping[str, str]) -> dict[str, str]:
    """What `progress` will change in the environment of a program, without what differs from attempt to attempt."""
    return without_proxy(environment) if is_wanted(environment) else {}


def _write(path: Path, token: str) -> None:
    path.unlink(missing_ok=True)  # an earlier launcher may have left it in a shared folder
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token)


def without_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that keep requests to ADDRESS away from a proxy; empty if there is no proxy."""
    if not any(map(environment.get, _PROXIES)):
        return {}
    names = [name for name in _NO_PROXIES if name in environment] or list(_NO_PROXIES)
    found = {}
    for name in names:
        hosts = [host.strip() for host in environment.get(name, "").split(",") if host.strip()]
        found[name] = ",".join(hosts if "*" in hosts or ADDRESS in hosts else [*hosts, ADDRESS])
    return found
