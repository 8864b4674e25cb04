"""Lightning's command line with its own demo model: lightning_cli.py fit --config FILE."""

import torch
from lightning.pytorch import LightningDataModule, LightningModule
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.demos import Transformer
from torch.utils.data import DataLoader, TensorDataset


class Model(LightningModule):
    """Lightning's demo of a transformer, small."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.model = Transformer(vocab_size=200, ninp=160, nhead=4, nhid=320, nlayers=2, dropout=dropout)

    def training_step(self, batch: list[torch.Tensor], batch_index: int) -> torch.Tensor:
        loss = torch.nn.functional.nll_loss(self.model(batch[0], batch[1]), batch[1].reshape(-1))
        self.log("train_loss", loss, prog_bar=True, on_step=True, on_epoch=False)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Data(LightningDataModule):
    """Sequences of which each number follows from the one before."""

    def train_dataloader(self) -> DataLoader:
        rows = (torch.arange(160)[:, None] * 3 + torch.arange(65)[None] * 7) % 200
        return DataLoader(TensorDataset(rows[:, :-1], rows[:, 1:]), batch_size=10, shuffle=True)


if __name__ == "__main__":
    # Without `overwrite`, a second start in the same folder is refused, because it has a config.yaml already.
    LightningCLI(Model, Data, save_config_kwargs={"overwrite": True})
