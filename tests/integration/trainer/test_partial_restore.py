"""Each rank restores what it needs and no more, for real: two processes, FSDP2 on gloo, a folder."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.trainer import exchange
from tests.support.trainer.stores import REPOSITORY, variables
from typer.testing import CliRunner

import holdfast_train
from holdfast_cli.main import app
from holdfast_train.format.manifest import Manifest, decode
from holdfast_train.storage.checksums import CHUNK_BYTES
from holdfast_train.storage.folder import FolderStorage

pytestmark = pytest.mark.training
PROGRAM: Final = """
import json, os, sys
from datetime import timedelta
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from holdfast_train import Run
from holdfast_train.storage.folder import FolderStorage
from holdfast_train import Values

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank, goal, names = dist.get_rank(), int(sys.argv[1]), sys.argv[2].split(",")
torch.manual_seed(0)
model = fully_shard(torch.nn.Linear(2048, 2048, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
objects = {"model": model, "optimizer": optimizer, "unused": Values(data=torch.zeros(4 << 20))}
per_rank = {"own": Values(data=torch.full((2 << 20,), rank))}
reads, inner = [], FolderStorage.read_into

def read_into(self, key, start, *views, **more):
    reads.append((key, start, sum(map(len, views))))
    inner(self, key, start, *views, **more)

FolderStorage.read_into = read_into
def sums():
    momentum = optimizer.state_dict()["state"][0]["momentum_buffer"]
    return [tensor.full_tensor().double().sum().item() for tensor in (model.weight, momentum)]

found_sums = []
with Run(**{name: objects[name] for name in names}, per_rank=per_rank) as run:
    resumed, found = run.resumed_from, per_rank["own"].data[0].item()
    if resumed is not None:
        found_sums.append(sums())
    while run.step < goal:
        model(torch.ones(4, 2048)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        assert not run.save()  # it takes place at the end of the step
        run.advance()
        found_sums.append(sums())
    run.left = True
with open(f"{sys.argv[3]}/{rank}.json", "w") as out:
    json.dump({"resumed": resumed, "own": found, "reads": reads, "sums": found_sums}, out)
dist.destroy_process_group()
"""


def train(storage: FolderStorage, folder: Path, attempt: int, goal: int, names: str) -> tuple[list[Any], str]:
    """What each rank says, and what they said on the way. With goal 0 they resume and leave."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    env = {**os.environ, **variables(storage.uri, attempt), "PYTHONPATH": str(REPOSITORY / "images/trainer")}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(program)]
    done = subprocess.run(
        [*command, str(goal), names, str(folder)], env=env, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)], done.stderr


@pytest.fixture
def storage(tmp_path: Path) -> FolderStorage:
    return FolderStorage(tmp_path / "prefix")


def newest(storage: FolderStorage) -> Manifest:
    return decode(storage.get(storage.keys("manifests/")[-1]))


def damage(storage: FolderStorage, manifest: Manifest, offset: int) -> None:
    """Change the byte at `offset` of a checkpoint's data."""
    for part in manifest.parts:
        if offset < part.size:
            path = Path(storage.uri.removeprefix("file://")) / part.key
            data = bytearray(path.read_bytes())
            data[offset] ^= 1
            path.write_bytes(data)
            return
        offset -= part.size


def assert_exported_alike(storage: FolderStorage, folder: Path) -> None:
    """The command line writes the weights of both ranks as holdfast-train does, which has torch."""
    exchange.run("export", storage.uri, folder / "torch", "--only", "model")
    done = CliRunner().invoke(app, ["checkpoints", "export", storage.uri, str(folder / "cli")])
    assert done.exit_code == 0, done.output
    ours, theirs = (exchange.normal(folder / name / "model.safetensors") for name in ("cli", "torch"))
    assert ours == theirs


@pytest.mark.thorough
def test_what_each_rank_reads_and_what_a_broken_chunk_means(storage: FolderStorage, tmp_path: Path) -> None:
    trained, _ = train(storage, tmp_path, 1, 2, "model,optimizer,unused")
    weight = holdfast_train.load(storage.uri, only="model")["model"]["weight"]  # whole, for a reader without ranks
    assert (weight.shape, weight.double().sum().item()) == ((2048, 2048), pytest.approx(trained[0]["sums"][-1][0]))
    assert_exported_alike(storage, tmp_path)
    manifest = newest(storage)
    tensors = {tensor.name: tensor for tensor in manifest.tensors}
    damage(storage, manifest, tensors["unused/data"].shards[0].offset + 2 * CHUNK_BYTES)

    resumed, said = train(storage, tmp_path, 2, 0, "model,optimizer")
    assert [(found["resumed"], found["own"]) for found in resumed] == [(2, 0), (2, 1)], said
    assert "is broken" not in said
    assert [found["sums"] for found in resumed] == [trained[0]["sums"][1:]] * 2
    shards = sum(tensors[name].size for name in ("model/weight", "optimizer/state/0/momentum_buffer")) // 2
    own = (2 << 20) * 8
    for found in resumed:  # its shards, its own state, and what else is in the chunks at their ends
        assert shards + own <= sum(size for _, _, size in found["reads"]) <= shards + own + 4 * CHUNK_BYTES

    damage(storage, manifest, tensors["model/weight"].shards[1].offset + 5)
    before, said = train(storage, tmp_path, 3, 0, "model,optimizer")
    assert [found["resumed"] for found in before] == [1, 1], said
    assert [found["sums"] for found in before] == [trained[0]["sums"][:1]] * 2
    assert "checkpoint of step 2 is broken (rank 1: " in said
    assert "resumed from the one of step 1" in said
