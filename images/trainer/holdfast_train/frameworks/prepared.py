"""What accelerate has prepared for a program, as far as Holdfast must know it."""

from typing import Any, Final

from holdfast_train.errors import StateError

ALLOWED: Final = ("NO", "MULTI_GPU", "MULTI_CPU", "FSDP")


def base_of(loader: Any) -> Any:
    """The DataLoader of torch inside a loader that accelerate has prepared. StateError if its position is not known."""
    kinds = [kind.__name__ for kind in type(loader).__mro__]
    if "DataLoaderShard" not in kinds:
        raise StateError(
            f"the data loader is a {kinds[0]}: a resume needs one that accelerate has prepared to read batches on each "
            f"process. Use a data set with __getitem__ and __len__, and dispatch_batches=False"
        )
    if getattr(loader, "use_stateful_dataloader", False):
        raise StateError("use_stateful_dataloader is set: leave it off, Holdfast keeps the position of the loader")
    return loader.base_dataloader


def refuse_distribution(accelerator: Any) -> None:
    """StateError if the processes share the training in a way that Holdfast cannot save."""
    kind = getattr(accelerator.distributed_type, "value", str(accelerator.distributed_type))
    if kind not in ALLOWED:
        raise StateError(
            f"the distributed type is {kind}, whose state Holdfast cannot save; allowed: one process, "
            f"DistributedDataParallel, and FSDP version 2"
        )
