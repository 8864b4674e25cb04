"""A loop with Lightning Fabric, which saves with `fabric.save`: lightning_fabric.py FOLDER."""

import sys
from pathlib import Path

import torch
from lightning.fabric import Fabric
from lightning.pytorch.demos import Transformer
from pause import pause

folder = Path(sys.argv[1])
fabric = Fabric(accelerator="cpu", devices=1)
fabric.launch()
fabric.seed_everything(1)
model = Transformer(vocab_size=200, ninp=160, nhead=4, nhid=320, nlayers=2, dropout=0.0)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer = fabric.setup(model, optimizer)
state = {"model": model, "optimizer": optimizer, "step": 0}
saves = sorted(folder.glob("step-*.ckpt"), key=lambda path: int(path.stem[5:]))
if saves:
    fabric.load(saves[-1], state)
    print(f"resumed at step {state['step']}", flush=True)
while state["step"] < 160:
    pause()
    rows = (torch.arange(32)[:, None] * (state["step"] + 3) + torch.arange(65)[None] * 7) % 200
    loss = torch.nn.functional.nll_loss(model(rows[:, :-1], rows[:, 1:]), rows[:, 1:].reshape(-1))
    fabric.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    state["step"] += 1
    print(f"step {state['step']}/160 loss={loss.item():.6f}", flush=True)
    if state["step"] % 20 == 0:
        fabric.save(folder / f"step-{state['step']}.ckpt", state)
fabric.save(folder / "final.ckpt", {"model": model})
