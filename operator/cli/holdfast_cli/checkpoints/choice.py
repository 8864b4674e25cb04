"""`--step` and `--best`: which checkpoint of a job a command takes. Without them it is the newest one."""

from typing import Annotated

import typer

from holdfast.api.job import Keep as JobKeep
from holdfast_cli.checkpoints.pick import select
from holdfast_cli.checkpoints.survey import Prefix
from holdfast_cli.errors import CliError, ExitCode
from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.retention import best_of
from holdfast_train.format.names import CheckpointName

Step = Annotated[int | None, typer.Option(min=0, help="The checkpoint of this step. Default: the newest intact one.")]
BestOne = Annotated[
    bool, typer.Option("--best", help="The best checkpoint by the metric in the job's checkpoint.keep.best.")
]


def choose(prefix: Prefix, keep: JobKeep | None, step: int | None, *, best: bool) -> CheckpointName | None:
    """The checkpoint that the options name; None for the newest one. CliError if there is none."""
    if step is not None and best:
        raise typer.BadParameter("give --step or --best, not both", param_hint="--best")
    if step is not None:
        return select(prefix, str(step)).name
    return _best(prefix, keep) if best else None


def _best(prefix: Prefix, keep: JobKeep | None) -> CheckpointName:
    rule = keep.best if keep else None
    if rule is None:
        what = "the job has no checkpoint.keep.best" if keep else f"{prefix.uri} is an address, which names no metric"
        raise CliError(
            f"--best is not known here: {what}", hint="give --step; holdfast checkpoints list shows steps and metrics"
        )
    intact = [commit for commit in prefix.state.commits if not commit.corrupt]
    found = best_of(intact, Keep(best=1, metric=rule.metric, mode=rule.mode))
    if not found:
        raise CliError(
            f"no checkpoint below {prefix.uri} has the metric {rule.metric}, by which the job chooses the best one",
            code=ExitCode.NOT_FOUND,
            hint=f"report it in the program: run.report(metrics={{'{rule.metric}': ...}}); or give --step",
        )
    return found[0].name
