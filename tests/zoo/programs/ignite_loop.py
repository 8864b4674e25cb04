"""PyTorch Ignite with its own Checkpoint handler: ignite_loop.py FOLDER."""

import sys
from pathlib import Path

import torch
from ignite.engine import Engine, Events
from ignite.handlers import Checkpoint, DiskSaver
from ignite.utils import manual_seed
from pause import pause

folder = Path(sys.argv[1])
manual_seed(1)
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 24, 3),
    torch.nn.ReLU(),
    torch.nn.Conv2d(24, 24, 3),
    torch.nn.Flatten(),
    torch.nn.Linear(13824, 9),
)
model.register_forward_pre_hook(pause)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(640, 1, 28, 28)
data = [(x[at : at + 32], (x[at : at + 32].mean((1, 2, 3)) * 90).long().abs() % 9) for at in range(0, 640, 32)]


def step(engine: Engine, batch: tuple[torch.Tensor, torch.Tensor]) -> float:
    """One step."""
    loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


trainer = Engine(step)
parts = {"model": model, "optimizer": optimizer, "trainer": trainer}
saver = Checkpoint(parts, DiskSaver(folder, create_dir=True, require_empty=False), n_saved=3)
trainer.add_event_handler(Events.EPOCH_COMPLETED(every=2), saver)


@trainer.on(Events.ITERATION_COMPLETED)
def say(engine: Engine) -> None:
    """Print the step."""
    print(f"step {engine.state.iteration}/320 loss={engine.state.output:.6f}", flush=True)


saves = sorted(folder.glob("checkpoint_*.pt"), key=lambda path: int(path.stem.split("_")[-1]))
if saves:
    Checkpoint.load_objects(parts, torch.load(saves[-1], weights_only=True))
    print(f"resumed at step {trainer.state.iteration}", flush=True)
trainer.run(data, max_epochs=16)
torch.save(model.state_dict(), folder / "final.pt")
