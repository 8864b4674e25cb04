"""The Brain of SpeechBrain with its own Checkpointer: speechbrain_brain.py FOLDER."""

import sys
from pathlib import Path

import speechbrain as sb
import torch
from pause import pause
from speechbrain.dataio.dataloader import SaveableDataLoader
from speechbrain.utils.checkpoints import Checkpointer
from speechbrain.utils.epoch_loop import EpochCounter
from torch.utils.data import TensorDataset

EPOCHS = 8
folder = Path(sys.argv[1])
torch.manual_seed(1)


class Regression(sb.Brain):
    """A small regression."""

    def compute_forward(self, batch: list[torch.Tensor], stage: sb.Stage) -> torch.Tensor:
        return self.modules.model(batch[0])

    def compute_objectives(self, predictions: torch.Tensor, batch: list[torch.Tensor], stage: sb.Stage) -> torch.Tensor:
        return torch.nn.functional.mse_loss(predictions, batch[1])

    def on_fit_batch_end(self, batch: object, outputs: object, loss: torch.Tensor, should_step: bool) -> None:
        print(f"step {self.optimizer_step}/{50 * EPOCHS} loss={loss.item():.6f}", flush=True)

    def on_stage_start(self, stage: sb.Stage, epoch: int | None = None) -> None:
        print(f"epoch begins: {epoch}", flush=True)

    def on_stage_end(self, stage: sb.Stage, stage_loss: float, epoch: int | None = None) -> None:
        if stage == sb.Stage.TRAIN:
            self.checkpointer.save_and_keep_only(meta={"epoch": epoch}, num_to_keep=3)


model = torch.nn.Sequential(torch.nn.Linear(100, 768), torch.nn.ReLU(), torch.nn.Linear(768, 768), torch.nn.ReLU(),
                            torch.nn.Linear(768, 1))  # fmt: skip
model.register_forward_pre_hook(pause)
counter = EpochCounter(EPOCHS)
x = torch.randn(3200, 100)
loader = SaveableDataLoader(TensorDataset(x, (x[:, :1] * x[:, 1:2]).sin()), batch_size=64)
checkpointer = Checkpointer(folder / "save", recoverables={"model": model, "counter": counter})
brain = Regression(
    {"model": model}, lambda parameters: torch.optim.Adam(parameters, lr=1e-3), {}, {"device": "cpu"}, checkpointer
)
brain.fit(counter, loader, progressbar=False)
torch.save(model.state_dict(), folder / "final.pt")
