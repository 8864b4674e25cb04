"""What the ranks of a program tell about their imports, and whether another process could make them early.

A process that waits imports torch before the script runs. The script then finds what it finds in a new process only if
it does nothing before its imports that an import depends on. So each rank tells, once it trains (`imported_modules` of
the library), from which files its modules came, which environment variables it has changed, and whether it has changed
its processor cores. Without that, no process waits for a rank.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from holdfast_protocol import variables

FILE = "modules.{}"  # of a local rank, beside the verdicts
# Libraries whose import defines things and does nothing else.
LIBRARIES = frozenset(
    (
        *("accelerate", "boto3", "botocore", "datasets", "holdfast_train", "huggingface_hub", "numpy", "peft"),
        *("safetensors", "tokenizers", "torch", "torchaudio", "torchvision", "transformers", "triton"),
    )
)
# What a program imports when it first uses a library: for the first optimizer of torch that takes nearly as long as
# torch itself. The operator passes only names of libraries on, so a pod that imports for a first program adds these.
AT_FIRST_USE = {"torch": "torch._dynamo", "holdfast_train": "holdfast_train.run.run"}
NOT_IMPORTED = "torch._inductor."  # the import of torch's compiler starts processes
# Variables that no library reads when it is imported, and some that are set by libraries or by Python itself.
HARMLESS = frozenset(
    (
        *("COLUMNS", "CUDA_MODULE_LOADING", "LC_CTYPE", "LINES", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"),
        *("MASTER_PORT", "RANK", "TOKENIZERS_PARALLELISM", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "WORLD_SIZE"),
    )
)
HARMLESS_BEGINNINGS = (
    *("ACCELERATE_", "COMET_", "FSDP_", "MLFLOW_", "WANDB_"),
    *(variables.PREFIX, "KUBEFLOW_TRAINER_", "PET_", "TORCHELASTIC_"),  # of the attempt, in a process that has waited
)


class Told(NamedTuple):
    """What a rank has told: its process, the modules to import, the file of each module ("" if it has none).

    `hindrance` says why another process cannot import them early; empty if it can.
    """

    pid: int
    modules: list[str]
    files: dict[str, str]
    hindrance: str


def read_told(folder: str | None, local_rank: int) -> Told | None:
    """What the rank with this local number has told. None if it has not told it (yet)."""
    if folder is None:
        return None
    try:
        content = json.loads(Path(folder, FILE.format(local_rank)).read_text(encoding="utf-8"))
        files = {str(name): str(file) for name, file in content["files"].items()}
        pid, changed, moved = int(content["pid"]), list(map(str, content["changed"])), bool(content["moved"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # the program can write anything into the file
        return None
    wanted = [name for name in files if name.partition(".")[0] in LIBRARIES]
    modules = [name for name in wanted if not f"{name}.".startswith(NOT_IMPORTED)]
    return Told(pid, modules, files, _hindrance(changed, moved))


def _hindrance(changed: list[str], moved: bool) -> str:
    read = sorted(name for name in changed if name not in HARMLESS and not name.startswith(HARMLESS_BEGINNINGS))
    if read:
        return f"the program changes {', '.join(read)} after its start; trainer.env can set it for the whole program"
    return "the program changes on which processor cores it runs" if moved else ""
