"""`holdfast checkpoints export`."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from holdfast_cli.checkpoints import screen
from holdfast_cli.checkpoints.choice import BestOne, Step, choose
from holdfast_cli.checkpoints.on_storage import Opened, on_storage
from holdfast_cli.checkpoints.show_command import several
from holdfast_cli.checkpoints.survey import survey
from holdfast_cli.errors import CliError
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.interruptible import interruptible
from holdfast_cli.terminal.parsing import size
from holdfast_train.exchange import exporting
from holdfast_train.exchange.exporting import Exported
from holdfast_train.exchange.progress_bar import format_size

Name = Annotated[str, typer.Option(help="Dotted name of what is exported, such as model, ema or model.backbone.")]
MostBytes = Annotated[
    str,
    typer.Option(
        help="Largest file, such as 5G or 512Mi; more data goes into several files with an index.", metavar="SIZE"
    ),
]


@on_storage
def export(
    at: Opened,
    destination: Annotated[
        Path,
        typer.Argument(help="The new folder; or the new file, if its name ends in .safetensors.", show_default=False),
    ],
    *,
    step: Step = None,
    best: BestOne = False,
    name: Name = "model",
    max_shard_size: MostBytes = "5G",
) -> None:
    """Write the weights of a checkpoint as safetensors, without torch.

    The tensors have the names of the model's state_dict and the types in which they were saved. Each chunk's checksum
    is checked; if the newest checkpoint is damaged, the one before it is taken. The folder appears when all of it is
    written. A cast to another type needs torch, and so do the formats dcp and torch.save (holdfast-train export).

    \b
    Examples:
      holdfast checkpoints export vit-faces weights -n vision
      holdfast checkpoints export s3://runs/vision/vit-faces weights --step 48000 --name ema
    """
    most = size("--max-shard-size", max_shard_size)
    place = destination.expanduser().absolute()
    wanted = at.found.name or choose(survey(at.storage), at.found.keep, step, best=best)
    if at.found.name and (step is not None or best):
        raise typer.BadParameter(f"{at.found.name} is one checkpoint: leave out --step and --best")
    try:
        with interruptible(), ExitStack() as bar:

            def begin(total: int) -> Callable[[int], None]:
                bar.close()  # that of a checkpoint which was damaged
                progress = bar.enter_context(screen.transfer("exporting", total))
                return lambda count: progress.advance(progress.task_ids[0], count)

            made = exporting.export(
                at.storage, wanted, place, "safetensors", only=name, max_shard_size=most, begin=begin
            )
    except OSError as error:
        raise CliError(f"nothing was exported: {error.filename or place}: {error.strerror or error}") from error
    at.answer(to_object(made), lambda out: _show(out, made))


def _show(out: Console, made: Exported) -> None:
    tensors, description = made.content.tensors, made.content.description
    lines = [
        made.uri,
        f"step {formats.count(description.step)}: {several(list(tensors), 'tensor')}, {format_size(made.content.size)}",
        *(f"  {file}  {format_size(file.stat().st_size)}" for file in made.files),
    ]
    if description.tied:
        tied = ", ".join(f"{name} (is {kept})" for name, kept in description.tied.items())
        lines.append(f"tied, and written once: {tied}")
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)


def to_object(made: Exported) -> dict[str, Any]:
    """What -o json prints: sizes in bytes."""
    description = made.content.description
    return {
        "uri": made.uri,
        "step": description.step,
        "tensors": len(made.content.tensors),
        "size": made.content.size,
        "tied": dict(description.tied),
        "files": [{"path": str(file), "size": file.stat().st_size} for file in made.files],
    }
