"""`wandb_settings`: how a program tells Weights & Biases at which step this attempt goes on."""

import os
from typing import Final

from holdfast_protocol import variables
from holdfast_train.run.run import Run

RUN: Final = "WANDB_RUN_ID"
RESUME: Final = "WANDB_RESUME"


def wandb_settings(run: Run) -> dict[str, str]:
    """Arguments for `wandb.init`: all attempts log into one run, cut back to the step at which this one resumes.

        with holdfast_train.Run(model=model) as run:
            tracker = wandb.init(**holdfast_train.wandb_settings(run))
            for step in run.steps():
                tracker.log({"loss": loss}, step=step)

    Steps that an earlier attempt logged after the checkpoint are dropped from the curve ("rewind", which the server of
    Weights & Biases has to support). The id is WANDB_RUN_ID or, without it, the UID of the job. WANDB_RESUME is taken
    out of the environment of this process if needed, because wandb refuses it beside a rewind. Outside a pod: empty.
    """
    name = os.environ.get(RUN) or os.environ.get(variables.JOB_UID)
    if not name:
        return {}
    if run.resumed_from is None:
        return {"id": name, "resume": "allow"}
    os.environ.pop(RESUME, None)
    return {"id": name, "resume_from": f"{name}?_step={max(run.resumed_from - 1, 0)}"}
