"""Programs with Lightning, and others that rest on it."""

from pathlib import Path

from tests.zoo.program import Program

CLI = """\
seed_everything: 1
trainer:
  accelerator: cpu
  devices: 1
  max_epochs: 6
  logger: false
  log_every_n_steps: 1
  default_root_dir: out
  callbacks:
    - class_path: TQDMProgressBar
    - class_path: ModelCheckpoint
      init_args: {dirpath: out, filename: "best-{epoch}", monitor: train_loss, save_top_k: 2, save_last: true}
    - class_path: ModelCheckpoint
      init_args: {dirpath: out/all, filename: "{epoch}-{step}", save_top_k: -1, every_n_epochs: 2}
ckpt_path: last
"""


def command_line(work: Path) -> None:
    """The configuration of LightningCLI."""
    (work / "config.yaml").write_text(CLI)


PROGRAMS = (
    Program(
        name="lightning-cli",
        group="torch",
        package="lightning",
        command="exec python $drivers/lightning_cli.py fit --config config.yaml",
        prepare=command_line,
        saves=("last*.ckpt", "best-*.ckpt", "all/*.ckpt"),
        resumed="Restored all states from the checkpoint",
        final="last.ckpt",
        patterns=("lightning",),
        steps=96,
        promise="resumes",
        why=(
            "Lightning restores weights, optimizer and loops at the end of an epoch, but no state of random generators "
            "(documentation: Saving and loading checkpoints): the data are shuffled in another order."
        ),
        cause="Lightning saves no random generators: the order of the data, and dropout, are others after a resume",
    ),
    Program(
        name="lightning-fabric",
        group="torch",
        package="lightning",
        command="exec python $drivers/lightning_fabric.py $folder",
        saves=("step-*.ckpt",),
        resumed=r"resumed at step \d+",
        final="final.ckpt",
        patterns=("step {step}/{total} loss={loss}",),
        steps=160,
        pause=0.1,
        promise="exact",
        why="The loop has no random numbers after its start, and saves all that it changes.",
    ),
)
