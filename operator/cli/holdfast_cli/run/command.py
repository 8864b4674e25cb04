"""`holdfast run`: send the folder of a program to the cluster, and train it there."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from holdfast_cli.cluster.connect import Target
from holdfast_cli.cluster.options import Kubeconfig, Namespace
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.logs.chosen import ALL, MOST_RANKS
from holdfast_cli.logs.command import logs
from holdfast_cli.run import options
from holdfast_cli.run.local_cluster import bring_up
from holdfast_cli.run.plan import Planned
from holdfast_cli.run.submit import Again
from holdfast_cli.run.training import Until, begin
from holdfast_cli.terminal.console import error_console
from holdfast_cli.terminal.interruptible import interruptible
from holdfast_cli.terminal.output import Output, write

LAST_LINES: Final = 10


def run(
    command: options.Command = None,
    *,
    folder_of_program: options.Dir = Path(),
    name: options.Name = None,
    image: options.Image = None,
    profile: options.Profile = None,
    nodes: options.Nodes = None,
    gpus: options.Gpus = None,
    cpu: options.Cpu = None,
    memory: options.Memory = None,
    deadline: options.Deadline = None,
    budget: options.Budget = None,
    every: options.Every = None,
    steps: options.Steps = None,
    env: options.Env = None,
    secret: options.Secret = None,
    data: options.Data = None,
    storage: options.Storage = None,
    storage_endpoint: options.StorageEndpoint = None,
    storage_secret: options.StorageSecret = None,
    folder: options.Folder = None,
    progress: options.Progress = None,
    exclude: options.Exclude = None,
    deps: options.Deps = None,
    python: options.Python = None,
    platform: options.Platform = None,
    provided: options.Provided = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Choose the newest versions of packages, not those of the last time.")
    ] = False,
    again: Annotated[
        Again | None,
        typer.Option(help="If a job has this name: go on with its training, or begin a new one.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen; with -o, print the job. Nothing is sent.")
    ] = False,
    follow: Annotated[
        bool | None,
        typer.Option(
            "--follow/--detach",
            help="Show the log until the job is over; Ctrl-C leaves it running. Default: on a terminal.",
            show_default=False,
        ),
    ] = None,
    only_send: Annotated[
        bool, typer.Option("--only-send", help="Send the folder, and create no job: for one that -o yaml prints.")
    ] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Train in the local cluster of this machine; it is started if it is not up.")
    ] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    output: Output = None,
) -> None:
    """Send the folder of a program to the cluster, and train it there.

    The folder is sent without what .gitignore and .holdfastignore name, and without what looks like a secret. What no
    option says is taken from holdfast.toml or [tool.holdfast] in pyproject.toml of the folder, from your own
    ~/.config/holdfast/config.toml, and from spec.defaults of the CapacityProfile, in this order.

    \b
    Examples:
      holdfast run -- python train.py --lr 3e-4
      holdfast run --gpus 8 --deadline 3d --budget 50 -- python train.py
      holdfast run --folder outputs --progress 'step {step} loss {loss}' -- python as_it_is.py
      holdfast run --dry-run -o yaml -- python train.py
    """
    if not command:
        raise typer.BadParameter("name the program and its arguments, such as -- python train.py", param_hint="COMMAND")
    typed = options.wanted(
        {
            **{"name": name, "image": image, "profile": profile, "nodes": nodes, "gpus": gpus, "cpu": cpu},
            **{"memory": memory, "deadline": deadline, "budget": budget, "every": every, "steps": steps},
            **{"env": env, "secrets": secret, "data": data, "folder": folder, "progress": progress},
            **{"exclude": exclude, "storage": (storage, storage_endpoint, storage_secret)},
            **{"deps": deps, "python": python, "platform": platform, "provided": provided},
        }
    )
    err = error_console()
    if local:
        kubeconfig = bring_up(lambda text: err.print(Text(text), soft_wrap=True))
    until = Until.CHECKED if dry_run else Until.SENT if only_send else Until.MADE
    target = Target(kubeconfig, namespace)
    with interruptible():
        begun = begin(
            target,
            folder_of_program,
            typed,
            command,
            err,
            again=lambda found: again or _asked(found),
            until=until,
            upgrade=upgrade,
        )
    planned, is_made = begun.planned, until is Until.MADE
    if not write(output, begun.manifest):
        _say_end(planned, err, until)
    if is_made and (follow or (follow is None and sys.stdout.isatty() and not output)):
        _follow(planned, namespace, kubeconfig, err)


def _asked(name: str) -> Again:
    """Ask on a terminal what happens to the job that has the name. CliError without one."""
    err = error_console()
    if not err.is_terminal:
        raise CliError(
            f"a job {name} exists", code=ExitCode.USAGE, hint="give --again continue, --again new, or another --name"
        )
    err.print(Text(f"A job {name} exists."))
    goes_on = typer.confirm("Go on with its training, with this program?", err=True)
    if goes_on:
        return Again.CONTINUE
    typer.confirm("Delete it, and begin a new training?", abort=True, err=True)
    return Again.NEW


def _follow(planned: Planned, namespace: str | None, kubeconfig: Path | None, err: Console) -> None:
    """Show the log until the job is over, with the exit code of `holdfast logs -f`. Ctrl-C ends only the log."""
    ranks = ALL if (planned.wanted.nodes or 1) <= MOST_RANKS else "0"
    tail = LAST_LINES if planned.again is Again.CONTINUE else None  # of the attempts before
    try:
        logs(planned.name, follow=True, rank=ranks, tail=tail, namespace=namespace, kubeconfig=kubeconfig)
    except typer.Exit as ended:
        name = f"{planned.name} -n {planned.namespace}"
        if ended.exit_code == ExitCode.FAILED:
            err.print(Text(f"{planned.name} has failed; holdfast describe {name} says why"))
        if ended.exit_code == ExitCode.INTERRUPTED:
            err.print(Text(f"{planned.name} goes on; holdfast logs -f {name} shows it, holdfast cancel {name} ends it"))
            raise typer.Exit(ExitCode.OK) from ended
        raise


def _say_end(planned: Planned, err: Console, until: Until) -> None:
    name = f"{planned.name} -n {planned.namespace}"
    match until:
        case Until.MADE:
            done = "goes on with this program" if planned.again is Again.CONTINUE else "was created"
            words = f"{name} {done}\n  holdfast watch {name}\n  holdfast logs -f {name}"
        case Until.SENT:
            words = f"the folder was sent for the job {name}, which was not created"
        case Until.CHECKED:
            words = "nothing was sent and no job was created: --dry-run"
    err.print(Text(words), soft_wrap=True)
