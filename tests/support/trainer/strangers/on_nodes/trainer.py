"""The Trainer of Hugging Face, as its documentation shows it. Each rank writes the state of its random numbers.

`rank-0`: rank 0 writes the rest. `each-node`: rank 0 of each node does, with the option `save_on_each_node`. `sharded`:
each rank writes its part of the model and of the optimizer, with FSDP. `one`: as `rank-0`, with `save_total_limit`.
"""

from typing import Any

import torch
from tests.support.trainer.strangers.on_nodes.notes import Notes
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

STEPS, EVERY = 8, 2


class Model(torch.nn.Module):
    """A tiny model whose dropout needs the random numbers of its rank."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The loss."""
        found = self.layers(inputs)
        return {"loss": (found - labels).square().mean(), "logits": found}


class Tells(TrainerCallback):
    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._notes.start(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        if "loss" in logs:
            self._notes.loss(state.global_step, float(logs["loss"]))

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._notes.saved(state.global_step)


OPTIONS: dict[str, dict[str, Any]] = {
    "rank-0": {},
    "one": {"save_total_limit": 1},
    "each-node": {"save_on_each_node": True},
    "sharded": {
        "fsdp": True,
        "fsdp_config": {"version": 2, "reshard_after_forward": True, "state_dict_type": "SHARDED_STATE_DICT"},
    },
}


def main(mode: str, root: str, place: str, holds: str) -> None:
    """Train."""
    notes = Notes(place, holds)
    torch.manual_seed(0)
    data = [{"inputs": x, "labels": x.sum(0, keepdim=True)} for x in torch.randn(64, 4)]
    arguments = TrainingArguments(
        root, max_steps=STEPS, save_steps=EVERY, logging_steps=1, per_device_train_batch_size=4, learning_rate=0.01,
        report_to="none", use_cpu=True, disable_tqdm=True, **OPTIONS[mode],
    )  # fmt: skip
    trainer = Trainer(model=Model(), args=arguments, train_dataset=data, callbacks=[Tells(notes)])
    last: Any = get_last_checkpoint
    trainer.train(resume_from_checkpoint=last(root))
    model: Any = trainer.model
    values = model.state_dict().values()
    notes.result(value.to_local() if hasattr(value, "to_local") else value for value in values)
    torch.distributed.destroy_process_group()
