"""A loop with Accelerate and its `save_state`, as diffusers' scripts have it: accelerate_loop.py FOLDER.

It trains a UNet of diffusers to remove noise.
"""

import os
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from diffusers import DDPMScheduler, UNet2DModel
from pause import pause
from torch.utils.data import DataLoader, TensorDataset

STEPS, EVERY = 80, 10
folder = Path(sys.argv[1])
accelerator = Accelerator(cpu=True)
set_seed(1)
model = UNet2DModel(
    sample_size=16, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(32, 64),
    down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"), norm_num_groups=8,
)  # fmt: skip
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(1280, 1, 16, 16)), batch_size=16, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
noise_of = DDPMScheduler(num_train_timesteps=100)
# The newest save that is whole: a crash can cut the one with the newest name.
newest = os.environ.get("HOLDFAST_NEWEST_CHECKPOINT")
step = 0
if newest:
    accelerator.load_state(newest)
    step = int(Path(newest).name.split("-")[1])
    print(f"resumed at step {step}", flush=True)
for (images,) in accelerator.skip_first_batches(loader, step) if step else loader:
    pause()
    noise, times = torch.randn_like(images), torch.randint(0, 100, (images.shape[0],))
    loss = torch.nn.functional.mse_loss(model(noise_of.add_noise(images, noise, times), times).sample, noise)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    step += 1
    print(f"step {step}/{STEPS} loss={loss.item():.6f}", flush=True)
    if step % EVERY == 0:
        accelerator.save_state(str(folder / f"checkpoint-{step}"))
torch.save(accelerator.unwrap_model(model).state_dict(), folder / "final.pt")
