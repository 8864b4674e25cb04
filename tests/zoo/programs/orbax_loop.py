"""Flax and Optax with Orbax' CheckpointManager: orbax_loop.py FOLDER."""

import sys
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from pause import pause

STEPS = 120


class Model(nn.Module):
    """A small network."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(3):
            x = nn.gelu(nn.Dense(768)(x))
        return nn.Dense(1)(x)


model, optimizer = Model(), optax.adamw(1e-3)
parameters = model.init(jax.random.key(1), jnp.ones((1, 64)))
state = {
    "parameters": parameters,
    "optimizer": optimizer.init(parameters),
    "key": jax.random.key_data(jax.random.key(2)),
}


@jax.jit
def step(state: dict) -> tuple[dict, jax.Array]:
    """One step with new data of the generator."""
    key, of_step = jax.random.split(jax.random.wrap_key_data(state["key"]))
    x = jax.random.normal(of_step, (192, 64))
    loss, gradient = jax.value_and_grad(lambda p: jnp.mean((model.apply(p, x) - jnp.sin(x[:, :1])) ** 2))(
        state["parameters"]
    )
    change, rest = optimizer.update(gradient, state["optimizer"], state["parameters"])
    after = optax.apply_updates(state["parameters"], change)
    return {"parameters": after, "optimizer": rest, "key": jax.random.key_data(key)}, loss


folder = Path(sys.argv[1]).absolute()
options = ocp.CheckpointManagerOptions(max_to_keep=3, save_interval_steps=20)
manager = ocp.CheckpointManager(folder / "checkpoints", options=options)
done = 0
if (newest := manager.latest_step()) is not None:
    state = manager.restore(newest, args=ocp.args.StandardRestore(state))
    done = newest
    print(f"resumed at step {done}", flush=True)
for number in range(done + 1, STEPS + 1):
    pause()
    state, loss = step(state)
    print(f"step {number}/{STEPS} loss={float(loss):.6f}", flush=True)
    manager.save(number, args=ocp.args.StandardSave(state))
manager.wait_until_finished()
np.savez(folder / "final.npz", *map(np.asarray, jax.tree.leaves(state["parameters"])))
