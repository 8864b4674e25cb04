"""The Runner of MMEngine with its own CheckpointHook and `resume=True`: mmengine_runner.py FOLDER."""

import sys

import torch
from mmengine.model import BaseModel
from mmengine.runner import Runner
from pause import pause
from torch.utils.data import DataLoader, TensorDataset


class Model(BaseModel):
    """A small classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(100, 640),
            torch.nn.ReLU(),
            torch.nn.Linear(640, 640),
            torch.nn.ReLU(),
            torch.nn.Linear(640, 2),
        )

    def forward(self, x: torch.Tensor, y: torch.Tensor, mode: str) -> dict[str, torch.Tensor]:
        return {"loss": torch.nn.functional.cross_entropy(self.layers(x), y)}


torch.manual_seed(1)
x = torch.randn(4000, 100)
y = (x[:, 0] * x[:, 1] > 0).long()
runner = Runner(
    model=Model(),
    work_dir=sys.argv[1],
    train_dataloader=DataLoader(TensorDataset(x, y), batch_size=64),
    train_cfg={"by_epoch": True, "max_epochs": 8},
    optim_wrapper={"optimizer": {"type": "Adam", "lr": 1e-3}},
    default_hooks={
        "checkpoint": {"type": "CheckpointHook", "interval": 1, "max_keep_ckpts": 3},
        "logger": {"type": "LoggerHook", "interval": 1},
    },
    randomness={"seed": 1},
    resume=True,
)
runner.model.register_forward_pre_hook(pause)
runner.train()
torch.save(runner.model.state_dict(), f"{sys.argv[1]}/final.pt")
