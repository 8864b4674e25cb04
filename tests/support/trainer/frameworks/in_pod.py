"""A training with a framework, started as a program: `in_pod.py LIBRARY EPOCHS SECONDS_A_STEP NOTES [FLAG...]`.

It is the training of `held_trainer`, in a pod or without Holdfast. Each rank appends a line to a file of the folder
NOTES for each batch: its step, its rank, the loss to the last bit, and the samples. At its end rank 0 prints the logs.
A flag is the name of a field of `Setup`.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.support.trainer.frameworks.held_trainer import TIMES, Setup


def main(library: str, epochs: str, seconds: str, notes: str, *flags: str) -> None:
    """Train."""
    processes, rank = int(os.environ.get("WORLD_SIZE", "1")), os.environ.get("RANK", "0")
    on: dict[str, Any] = dict.fromkeys(flags, True)
    setup = Setup(processes=processes, epochs=int(epochs), library=library, noisy=True, **on)
    with Path(notes, rank).open("a", buffering=1, encoding="utf-8") as file:

        def write(line: Any) -> None:
            if isinstance(line, list):
                file.write(json.dumps(line) + "\n")
            elif rank == "0":
                print("LOGS", json.dumps(line["logs"]), flush=True)

        def after(step: int) -> None:
            time.sleep(float(seconds))

        if library != "trainer":
            importlib.import_module(f"tests.support.trainer.frameworks.{library}_loop").train(setup, write, after)
            return
        from tests.support.trainer.frameworks.trainer_parts import make_trainer

        from holdfast_train.frameworks.transformers import train

        trainer = make_trainer(setup, Path(notes, "output"), write, after)
        train(trainer)
        history = trainer.state.log_history
        write({"logs": [{k: v for k, v in log.items() if not any(t in k for t in TIMES)} for log in history]})


if __name__ == "__main__":
    main(*sys.argv[1:])
