"""A tiny trainer with data-loader workers, for torchrun: what most people run."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset

from holdfast_train import Run


class Numbers(Dataset[torch.Tensor]):
    """As many samples as there are steps."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(index % 7))


def main() -> None:
    """Train a linear layer on constants until it must leave."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = iter(DataLoader(Numbers(options.steps * 4), batch_size=4, num_workers=2))
    with Run(model=model, optimizer=optimizer) as run:
        for _ in run.steps(options.steps):
            loss = (model(next(batches)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.report(loss=loss.item(), samples=4)


if __name__ == "__main__":
    main()
