"""`holdfast checkpoints verify`."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from holdfast_cli.checkpoints import screen
from holdfast_cli.checkpoints.damage import THREADS, Damage, shapes, sums
from holdfast_cli.checkpoints.manifests import read_manifest
from holdfast_cli.checkpoints.on_storage import Opened, on_storage
from holdfast_cli.checkpoints.options import Chosen
from holdfast_cli.checkpoints.pick import LATEST, Selected, select
from holdfast_cli.checkpoints.show_command import several
from holdfast_cli.checkpoints.survey import Prefix, check_owner, log_for_person, survey
from holdfast_cli.errors import CliError, ExitCode
from holdfast_train.commitlog.records import LogState
from holdfast_train.errors import CheckpointCorruptError, FencedError, KeyMissingError
from holdfast_train.exchange.progress_bar import format_size
from holdfast_train.format.manifest import Manifest
from holdfast_train.storage.base import Storage


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one checkpoint. `found` is None if its manifest is damaged: then nothing else was checked."""

    selected: Selected
    found: Manifest | None
    damages: tuple[Damage, ...]

    @property
    def is_wrongly_quarantined(self) -> bool:
        """True if the checkpoint is in quarantine although it is intact."""
        return self.selected.commit is not None and self.selected.commit.corrupt and not self.damages


@on_storage
def verify(
    at: Opened,
    checkpoint: Chosen = LATEST,
    *,
    every: Annotated[bool, typer.Option("--all", help="Verify all checkpoints that the log names.")] = False,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Take intact checkpoints out of quarantine; only while nothing trains.")
    ] = False,
) -> None:
    """Read every byte of a checkpoint and name what is damaged.

    Damage is an object or chunk that differs from what was committed. The manifest's hash is compared with the log's,
    sizes and checksums with the manifest's. Nothing is changed without --take-back. The exit code is 1 if anything is
    damaged.

    \b
    Examples:
      holdfast checkpoints verify vit-faces -n vision
      holdfast checkpoints verify s3://runs/vision/vit-faces --all
    """
    named = str(at.found.name or checkpoint)
    if every and named != LATEST:
        raise typer.BadParameter(f"{named} is one checkpoint, but --all means all of them: give one or the other")
    prefix = survey(at.storage)
    if take_back:
        check_owner(at.found, prefix.state)
    verdicts = verify_all(at.storage, _named(prefix) if every else [select(prefix, named)])
    intact = tuple(v.selected.commit.seq for v in verdicts if v.is_wrongly_quarantined and v.selected.commit)
    if take_back and intact:
        _take_back(at.storage, prefix.state, intact)
    elif take_back:
        screen.notes(("nothing was taken out of quarantine: no checkpoint that was read is in quarantine and intact",))
    data = to_object(prefix.uri, verdicts, taken_back=take_back)
    at.answer(data, lambda out: show(out, verdicts, taken_back=take_back))
    if any(verdict.damages for verdict in verdicts):
        raise typer.Exit(ExitCode.FAILED)


def _take_back(storage: Storage, seen: LogState, intact: tuple[int, ...]) -> None:
    """Append the record that lets attempts resume from these again. CliError if an attempt may be training."""
    try:
        log_for_person(storage, seen).release(intact)
    except FencedError as error:
        hint = "suspend the job, or wait until it is complete"
        raise CliError(f"nothing was taken out of quarantine: {error}", hint=hint) from error


def _named(prefix: Prefix) -> list[Selected]:
    """All checkpoints that the log names, newest first; those set aside last."""
    commits = [Selected(commit.name, commit) for commit in reversed(prefix.state.every)]
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
            sizes = {entry.key: entry.size for prefix in found.prefixes for entry in storage.entries(prefix)}
            wrong = shapes(found, sizes)
            wrong += sums(storage, found, sizes, pool, lambda size: progress.advance(progress.task_ids[0], size))
            verdicts.append(Verdict(selected, found, tuple(wrong)))
    return verdicts


def _open(storage: Storage, selected: Selected) -> Manifest | Damage:
    key = selected.name.manifest_key
    try:
        return read_manifest(storage, selected)
    except KeyMissingError:
        return Damage(key, "it does not exist")
    except CheckpointCorruptError as error:
        return Damage(key, str(error).removeprefix(f"{key}: ").removeprefix(f"{key} is "))


def show(out: Console, verdicts: Sequence[Verdict], *, taken_back: bool = False) -> None:
    """Print for people: one line for each checkpoint, and one for each damage."""
    if not verdicts:
        out.print("nothing is committed")
    for verdict in verdicts:
        found = verdict.found
        what = f"{format_size(found.size)} in {several(found.parts, 'part')}" if found else "nothing else was checked"
        hashed = "" if verdict.selected.commit or not found else "; the log has no hash of its manifest"
        good = ("intact ", "green") if not verdict.damages else ("DAMAGED", "bold red")
        out.print(Text.assemble(good, f"  {verdict.selected.name}  {what}{hashed}"), soft_wrap=True)
        if verdict.is_wrongly_quarantined:
            later = "it is taken out of quarantine"
            now = "it is in quarantine: a resume uses it only if no other is intact; --take-back ends that"
            out.print(Text(f"  {later if taken_back else now}", style="yellow"), soft_wrap=True)
        for damage in verdict.damages:
            chunk = "" if damage.chunk is None else f" chunk {damage.chunk}"
            out.print(Text.assemble(f"  {damage.key}", (chunk, "bold"), f": {damage.what}"), soft_wrap=True)


def to_object(uri: str, verdicts: Sequence[Verdict], *, taken_back: bool = False) -> dict[str, Any]:
    """What -o json prints."""
    return {
        "uri": uri,
        "intact": not any(verdict.damages for verdict in verdicts),
        "checkpoints": [
            {
                "name": str(verdict.selected.name),
                "intact": not verdict.damages,
                "size": verdict.found.size if verdict.found else None,
                "hashInLog": verdict.selected.commit is not None,
                "inQuarantine": bool(verdict.selected.commit and verdict.selected.commit.corrupt)
                and not (taken_back and verdict.is_wrongly_quarantined),
                "damages": [{"key": d.key, "chunk": d.chunk, "what": d.what} for d in verdict.damages],
            }
            for verdict in verdicts
        ],
    }
