"""How the processes of a training with Lightning or Fabric share it, as far as Holdfast must know it."""

from typing import Any, Final

from holdfast_train.errors import StateError

ALLOWED: Final = ("SingleDeviceStrategy", "DDPStrategy")


def refuse_strategy(strategy: Any, processes: int) -> None:
    """StateError if the processes share the training in a way that Holdfast cannot save, or start each other."""
    kind = type(strategy).__name__
    if kind not in ALLOWED:
        raise StateError(
            f"the strategy is {kind}, whose state Holdfast cannot save; allowed: one process, and strategy='ddp'. To "
            f"shard a model, use FSDP version 2 with AcceleratedRun or Run"
        )
    if processes > 1 and type(strategy.cluster_environment).__name__ != "TorchElasticEnvironment":
        raise StateError(
            f"{processes} processes were not started by torchrun: start the program with torchrun, which gives each "
            f"process its rank"
        )
