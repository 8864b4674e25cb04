"""Data-loader workers: only a SIGTERM of their parent ends them."""

import os
import subprocess
import sys

import pytest

CODE = """
{first}
{second}
import os, signal, sys, time
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self): return 100000
    def __getitem__(self, i): return i

loader = iter(DataLoader(Numbers(), batch_size=1, num_workers=2))
next(loader)
pids = [w.pid for w in loader._workers]
# A stranger: neither the workers' parent nor one of them.
os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "kill -TERM " + " ".join(map(str, pids)))
for _ in range(500): next(loader)
print("stayed", all(w.is_alive() for w in loader._workers), flush=True)
for worker in loader._workers: worker.terminate()
for worker in loader._workers: worker.join(20)
print("left", not any(w.is_alive() for w in loader._workers), flush=True)
os._exit(0)
"""


@pytest.mark.training
@pytest.mark.parametrize(
    ("first", "second"), [("import holdfast_train", "import torch"), ("import torch", "import holdfast_train")]
)
def test_sigterm_in_a_worker(first: str, second: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", CODE.format(first=first, second=second)],
        env={**os.environ, "HOLDFAST_JOB": "job", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert found.stdout == "stayed True\nleft True\n", found.stderr


def test_outside_a_pod_torch_is_left_alone() -> None:
    code = "import sys, holdfast_train; print([f for f in sys.meta_path if 'holdfast_train' in type(f).__module__])"
    env = {k: v for k, v in os.environ.items() if k != "HOLDFAST_JOB"}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
