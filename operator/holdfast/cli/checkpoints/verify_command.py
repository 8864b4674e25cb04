"""`holdfast checkpoints verify`."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from holdfast.cli.checkpoints import screen
from holdfast.cli.checkpoints.damage import THREADS, Damage, shapes, sums
from holdfast.cli.checkpoints.manifests import read_manifest
from holdfast.cli.checkpoints.options import AsJson, Chosen, Endpoint, Place, Region
from holdfast.cli.checkpoints.pick import LATEST, Selected, select
from holdfast.cli.checkpoints.show_command import several
from holdfast.cli.checkpoints.storage_address import Where, opened
from holdfast.cli.checkpoints.survey import Prefix, person, survey
from holdfast.cli.cluster.options import Kubeconfig, Namespace
from holdfast.cli.errors import CliError, ExitCode
from holdfast.cli.ui import formats
from holdfast.cli.ui.console import console
from holdfast_train.commitlog.records import LogState
from holdfast_train.errors import CheckpointCorruptError, FencedError, KeyMissingError
from holdfast_train.format.manifest import Manifest
from holdfast_train.format.names import manifest_key
from holdfast_train.storage.base import Storage


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one checkpoint. `found` is None if its manifest is damaged: then nothing else was looked at."""

    selected: Selected
    found: Manifest | None
    damages: tuple[Damage, ...]

    @property
    def wronged(self) -> bool:
        """Whether it is in quarantine, and holds."""
        return self.selected.commit is not None and self.selected.commit.corrupt and not self.damages


def verify(
    place: Place,
    checkpoint: Chosen = LATEST,
    *,
    every: Annotated[bool, typer.Option("--all", help="All checkpoints that the log names.")] = False,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Take those that hold out of quarantine, while nothing trains.")
    ] = False,
    namespace: Namespace = None,
    endpoint: Endpoint = None,
    region: Region = None,
    as_json: AsJson = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Read every byte of a checkpoint, and name every object and chunk that is not what was committed.

    The manifest's hash is held against the log's, sizes and checksums against the manifest's. Nothing is changed,
    unless you say --take-back. The exit code is 1 if anything is damaged.

    \b
    Examples:
      holdfast checkpoints verify vit-faces -n vision
      holdfast checkpoints verify s3://runs/vision/vit-faces --all
    """
    where = Where(place, namespace, kubeconfig, endpoint, region)
    with opened(where) as (found, storage):
        screen.notes(found.notes)
        if every and (found.name or checkpoint != LATEST):
            raise typer.BadParameter(f"{found.name or checkpoint} is one checkpoint, and --all means every one")
        prefix = survey(storage)
        chosen = [select(prefix, found.name or checkpoint)] if not every else _named(prefix)
        verdicts = verify_all(storage, chosen)
        wronged = tuple(one.selected.commit.seq for one in verdicts if one.wronged and one.selected.commit)
        if take_back and wronged:
            _take_back(storage, prefix.state, wronged)
        elif take_back:
            screen.notes(("nothing was taken out of quarantine: nothing that was read is in it, and holds",))
    if as_json:
        typer.echo(json.dumps(to_object(prefix.uri, verdicts, taken_back=take_back), indent=2))
    else:
        show(console(), verdicts, taken_back=take_back)
    if any(verdict.damages for verdict in verdicts):
        raise typer.Exit(ExitCode.FAILED)


def _take_back(storage: Storage, seen: LogState, whole: tuple[int, ...]) -> None:
    """Append the record that lets attempts resume from them again. CliError if an attempt may be training."""
    try:
        person(storage, seen).take_back(whole)
    except FencedError as error:
        hint = "suspend the job, or wait until it is complete"
        raise CliError(f"nothing was taken out of quarantine: {error}", hint=hint) from error


def _named(prefix: Prefix) -> list[Selected]:
    """Newest first."""
    commits = [Selected(commit.name, commit) for commit in reversed(prefix.state.commits)]
    return [*commits, *(Selected(name) for name in reversed(prefix.state.set_aside))]


def verify_all(storage: Storage, chosen: Sequence[Selected]) -> list[Verdict]:
    """Read and check each of them. StorageError if the storage cannot be read."""
    opened_ = [_open(storage, selected) for selected in chosen]
    total = sum(found.size for found in opened_ if isinstance(found, Manifest))
    verdicts = []
    with screen.transfer("reading", total) as progress, ThreadPoolExecutor(THREADS, "holdfast-get") as pool:
        for selected, found in zip(chosen, opened_, strict=True):
            if isinstance(found, Damage):
                verdicts.append(Verdict(selected, None, (found,)))
                continue
            sizes = {entry.key: entry.size for entry in storage.entries(f"data/{selected.name}/")}
            wrong = shapes(found, sizes)
            wrong += sums(storage, found, sizes, pool, lambda size: progress.advance(progress.task_ids[0], size))
            verdicts.append(Verdict(selected, found, tuple(wrong)))
    return verdicts


def _open(storage: Storage, selected: Selected) -> Manifest | Damage:
    key = manifest_key(selected.name)
    try:
        return read_manifest(storage, selected)
    except KeyMissingError:
        return Damage(key, "it does not exist")
    except CheckpointCorruptError as error:
        return Damage(key, str(error).removeprefix(f"{key}: ").removeprefix(f"{key} is "))


def show(out: Console, verdicts: Sequence[Verdict], *, taken_back: bool = False) -> None:
    """Print it for people: one line a checkpoint, and one for each thing that is damaged."""
    if not verdicts:
        out.print("nothing is committed")
    for verdict in verdicts:
        found = verdict.found
        what = f"{formats.size(found.size)} in {several(found.parts, 'part')}" if found else "nothing could be checked"
        hashed = "" if verdict.selected.commit or not found else "; the log has no hash of its manifest"
        good = ("whole  ", "green") if not verdict.damages else ("DAMAGED", "bold red")
        out.print(Text.assemble(good, f"  {verdict.selected.name}  {what}{hashed}"), soft_wrap=True)
        if verdict.wronged:
            later = "it is taken out of quarantine"
            now = "it is in quarantine, and read only where no other one holds; --take-back changes that"
            out.print(Text(f"  {later if taken_back else now}", style="yellow"), soft_wrap=True)
        for damage in verdict.damages:
            chunk = "" if damage.chunk is None else f" chunk {damage.chunk}"
            out.print(Text.assemble(f"  {damage.key}", (chunk, "bold"), f": {damage.what}"), soft_wrap=True)


def to_object(uri: str, verdicts: Sequence[Verdict], *, taken_back: bool = False) -> dict[str, Any]:
    """What --json prints."""
    return {
        "uri": uri,
        "whole": not any(verdict.damages for verdict in verdicts),
        "checkpoints": [
            {
                "name": verdict.selected.name,
                "whole": not verdict.damages,
                "size": verdict.found.size if verdict.found else None,
                "hashInLog": verdict.selected.commit is not None,
                "inQuarantine": bool(verdict.selected.commit and verdict.selected.commit.corrupt)
                and not (taken_back and verdict.wronged),
                "damages": [{"key": d.key, "chunk": d.chunk, "what": d.what} for d in verdict.damages],
            }
            for verdict in verdicts
        ],
    }
