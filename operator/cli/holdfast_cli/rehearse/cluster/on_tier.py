"""`holdfast rehearse -f FILE`: what was typed, the cluster, and that nothing stays there."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import typer
from rich.text import Text

from holdfast_cli.cluster.connect import Target
from holdfast_cli.errors import CliError
from holdfast_cli.rehearse import screen
from holdfast_cli.rehearse.asked import Asked
from holdfast_cli.rehearse.cluster.api import ClusterApi, connected
from holdfast_cli.rehearse.cluster.manifests import OnTier, check, make_run
from holdfast_cli.rehearse.cluster.stage import PATIENCE, ClusterStage
from holdfast_cli.rehearse.left import Interruption
from holdfast_cli.rehearse.place import made_place
from holdfast_cli.rehearse.rehearsal import Rehearsed, carry_out
from holdfast_cli.storage.address import explained
from holdfast_cli.terminal.console import error_console
from holdfast_cli.terminal.interruptible import interruptible
from holdfast_cli.trial_jobs.manifests import left_out
from holdfast_cli.trial_jobs.target import read_job

NO_SIGN: Final = (
    "crash-in-save needs checkpoint.folder on a tier: no file in the pod shows that a program with Run begins to save"
)


@dataclass(frozen=True, slots=True)
class Typed:
    """The options that say what runs where. `has_chosen`: interruptions were named."""

    files: Sequence[Path]
    tier: str | None
    steps: int | None
    every: int | None
    acquire: timedelta
    longest: timedelta
    keep: Path | None
    has_chosen: bool
    endpoint: str | None
    kubeconfig: Path | None
    namespace: str | None


def rehearse_on_tier(asked: Asked, typed: Typed) -> Rehearsed:
    """Rehearse the job of the files on one tier. CliError, BadParameter."""
    raw, job = read_job(typed.files, "rehearse")
    where = job.metadata.namespace
    if where and typed.namespace and where != typed.namespace:
        raise typer.BadParameter(f"{typed.namespace}: the job of the file is in {where}", param_hint="--namespace")
    err = error_console()
    if job.spec.checkpoint.folder is None and Interruption.CRASH_IN_SAVE in asked.interruptions:
        if typed.has_chosen:
            raise CliError(NO_SIGN, hint="leave it out, such as with --with notice --with crash --with lost-node")
        err.print(Text(f"note:  {NO_SIGN}"))
        others = tuple(one for one in asked.interruptions if one is not Interruption.CRASH_IN_SAVE)
        asked = replace(asked, interruptions=others)
    target = Target(typed.kubeconfig, typed.namespace or where or None)
    with (
        interruptible(),
        made_place(None, typed.keep) as place,
        connected(target, raw, typed.endpoint) as api,
    ):
        written, tier = api.grid().chosen([] if typed.tier is None else [typed.tier])[0]
        on_tier = OnTier(
            raw, job, written, tier, typed.steps, typed.every, typed.acquire, typed.longest, typed.keep is not None
        )
        check(on_tier)
        with explained():  # before anything runs
            storage = api.storage(make_run(on_tier, 1))
            with storage.within(PATIENCE):
                storage.keys("log/")
        if left := api.remove_earlier():
            err.print(f"removed {left} of an earlier rehearsal")
        if lacking := left_out(written):
            err.print(Text(f"note:  the runs lack {', '.join(lacking)} of the profile's tier"))
        err.print(Text(f"{job.metadata.name} is rehearsed on tier {tier.name}"))
        with _all_removed(api, keeps=typed.keep is not None), screen.live(err) as tell:
            return carry_out(asked, ClusterStage(api, on_tier, place.root, tell))


@contextmanager
def _all_removed(api: ClusterApi, *, keeps: bool) -> Iterator[None]:
    """Delete all jobs in the end, and what they stored; say what stays, and why."""
    err = error_console()
    try:
        yield
    except KeyboardInterrupt:
        err.print("interrupted: the rehearsal is " + ("kept" if keeps else "being removed ..."))
        raise
    finally:
        if not keeps:
            api.remove_in_the_end()
        for note in api.cleaner.notes:
            err.print(Text(f"note:  {note}"))
