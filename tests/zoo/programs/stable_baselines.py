"""Stable-Baselines3 with its own CheckpointCallback: stable_baselines.py FOLDER."""

import os
import sys
from pathlib import Path

import gymnasium
import torch
from pause import pause
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback

STEPS = 24_000
torch.set_num_threads(1)


class Pause(BaseCallback):
    """Pause in each collection of experience."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        pause()


folder = Path(sys.argv[1])
# The newest save that is whole: a crash can cut the one with the newest name.
newest = os.environ.get("HOLDFAST_NEWEST_CHECKPOINT")
if newest:
    model = PPO.load(newest, env=gymnasium.make("CartPole-v1"), device="cpu")
    print(f"resumed at step {model.num_timesteps}", flush=True)
else:
    model = PPO("MlpPolicy", "CartPole-v1", seed=1, n_steps=1024, verbose=1, device="cpu")
model.learn(
    STEPS - model.num_timesteps,
    callback=[CheckpointCallback(save_freq=3072, save_path=str(folder), name_prefix="ppo"), Pause()],
    reset_num_timesteps=False,
)
torch.save(model.policy.state_dict(), folder / "final.pt")
