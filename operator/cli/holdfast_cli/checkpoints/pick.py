"""Find the checkpoint that was typed."""

from dataclasses import dataclass

from holdfast_cli.checkpoints.survey import Prefix
from holdfast_cli.errors import CliError, ExitCode
from holdfast_train.commitlog.records import Commit, LogState
from holdfast_train.format.names import CheckpointName

LATEST = "latest"
_CHOOSE = "give one of these steps, latest, or a name or its start; holdfast checkpoints list shows all names"
_WAIT = "try again after the job's first save"


@dataclass(frozen=True, slots=True)
class Selected:
    """A checkpoint by name. `commit` is its record in the log; None if it was not committed or was set aside."""

    name: CheckpointName
    commit: Commit | None = None


def select(prefix: Prefix, text: str) -> Selected:
    """The checkpoint for `latest`, a step, a name or its start; the newest of several. CliError if there is none."""
    commits = prefix.state.commits
    if text == LATEST:
        if not commits:
            raise CliError(f"nothing is committed below {prefix.uri} yet", code=ExitCode.NOT_FOUND, hint=_WAIT)
        return Selected(commits[-1].name, commits[-1])
    if text.isdecimal() and len(text) < 20:
        found = [c for c in prefix.state.every if c.step == int(text)]  # those of the present branch are the last
        if found:
            return Selected(found[-1].name, found[-1])
    known = {c.name: c for c in prefix.state.every}
    every = sorted(known.keys() | set(prefix.state.set_aside) | prefix.objects.keys())
    alike = [name for name in every if str(name) == text or ("-" in text and str(name).startswith(text))]
    if len(alike) == 1:
        return Selected(alike[0], known.get(alike[0]))
    if alike:
        raise CliError(
            f"{text!r} is the start of {len(alike)} names: {', '.join(map(str, alike))}", hint="type more of the name"
        )
    raise CliError(
        f"there is no checkpoint {text!r} below {prefix.uri}; {_known(prefix.state)}",
        code=ExitCode.NOT_FOUND,
        hint=_CHOOSE if commits else _WAIT,
    )


def _known(state: LogState) -> str:
    if not state.commits:
        return "nothing is committed there yet"
    steps = [str(c.step) for c in state.commits if c.step]
    if not steps:
        return "none of its checkpoints has a step"
    shown = steps if len(steps) <= 8 else [*steps[:2], "...", *steps[-5:]]
    return f"committed {'step' if len(steps) == 1 else 'steps'}: {', '.join(shown)}"
