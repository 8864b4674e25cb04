"""What ranks have alike, and what they do not: batch norm under DistributedDataParallel, models that nothing keeps the
same, ranks that wait for one another. Real processes and gloo."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.exact import _bits, start
from tests.support.trainer.inside import settle
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import identity, variables
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Every, Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.environment import Identity
from holdfast_train.storage.folder import FolderStorage

pytestmark = pytest.mark.training
STEPS, KILLED, EVERY = 12, 8, 5
WAIT = 60.0


def ranks(folder: Path, attempt: int, body: Callable[..., None], *arguments: Any, **more: str) -> list[int | None]:
    """Two ranks run `body(folder, rank, *arguments)` in one attempt; their exit codes."""
    return start(2, _begin, folder, attempt, body, arguments, more)


def said(folder: Path, attempt: int, rank: int) -> str:
    """What a rank printed."""
    return (folder / f"attempt-{attempt}-rank-{rank}.txt").read_text()


def log(folder: Path) -> CommitLog:
    found = CommitLog(FolderStorage(folder / "prefix"), Identity("ns", "job", "uid-1", 9, "pod-9"))
    found.refresh()
    return found


# In each process.


def _begin(
    folder: Path, attempt: int, body: Callable[..., None], arguments: tuple[Any, ...], more: dict[str, str]
) -> None:
    import torch

    rank = int(os.environ["RANK"])
    folder.mkdir(exist_ok=True)
    output = os.open(folder / f"attempt-{attempt}-rank-{rank}.txt", os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.environ.update(variables(f"file://{folder}/prefix", attempt, HOLDFAST_VERDICT_DIR=str(folder), **more))
    if body is not enter_before_the_group:
        torch.distributed.init_process_group("gloo")
    body(folder, rank, *arguments)
    sys.stderr.flush()
    os._exit(0)


def batch_norm(folder: Path, rank: int, broadcast: bool, kill_after: int | None) -> None:
    """Writes a line for each step: the bits of the whole state, and an evaluation at its beginning."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from holdfast_train import Run

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 2000), torch.nn.BatchNorm1d(2000), torch.nn.Linear(2000, 1))
    model = DistributedDataParallel(net, broadcast_buffers=broadcast)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    name = f"{os.environ['HOLDFAST_ATTEMPT']}-{rank}.jsonl"
    with Run(model=model, optimizer=optimizer) as run, (folder / name).open("w", buffering=1) as file:
        for step in run.steps(STEPS):
            settle(run)
            bits = hash(b"".join(_bits([net.state_dict(), optimizer.state_dict()])))
            net.eval()
            evaluation = net(torch.ones(1, 8)).item().hex()
            net.train()
            file.write(json.dumps([step, bits, evaluation]) + "\n")
            batch = torch.randn(8, 8, generator=torch.Generator().manual_seed(step * 2 + rank))
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            if step == kill_after:
                torch.distributed.barrier()
                os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("broadcast", [pytest.param(True, marks=pytest.mark.thorough), False])
def test_batch_norm_resumes_bitwise_on_every_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broadcast: bool
) -> None:
    """The running statistics differ between ranks. Breaks if a checkpoint has some of each, or those of one rank."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    every = {"every": Every(EVERY)}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert ranks(whole, 1, batch_norm, broadcast, None, **every) == [0, 0], said(whole, 1, 0) + said(whole, 1, 1)
    assert ranks(killed, 1, batch_norm, broadcast, KILLED, **every) == [-signal.SIGKILL] * 2, said(killed, 1, 1)
    assert ranks(killed, 2, batch_norm, broadcast, None, **every) == [0, 0], said(killed, 2, 0) + said(killed, 2, 1)
    lines = {
        (folder.name, attempt, rank): (folder / f"{attempt}-{rank}.jsonl").read_text().splitlines()
        for folder, attempt in ((whole, 1), (killed, 1), (killed, 2))
        for rank in (0, 1)
    }
    for rank in (0, 1):
        assert lines["killed", 1, rank] == lines["whole", 1, rank][: KILLED + 1]
        assert lines["killed", 2, rank] == lines["whole", 1, rank][EVERY:]
    assert lines["whole", 1, 0] != lines["whole", 1, 1]  # the comparison is meaningful: the statistics do differ


def not_the_same(folder: Path, rank: int) -> None:
    import torch

    from holdfast_train import Run

    torch.manual_seed(rank)
    with Run(model=torch.nn.Linear(30, 30)) as run:
        for _ in run.steps(3):
            pass


def test_parameters_that_differ_are_refused_by_name(tmp_path: Path) -> None:
    assert ranks(tmp_path, 1, not_the_same) == [1, 1]
    for rank in (0, 1):
        found = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        assert found["reason"] == "StateInvalid"
        assert "rank 1 has other values of 'model/weight' than rank 0" in found["message"]
        assert "pass objects that differ as per_rank" in found["message"]
    assert log(tmp_path).state.commits == ()


def begins_to_differ(folder: Path, rank: int) -> None:
    import torch

    from holdfast_train import Run, Values

    mean = Values(of=0.0)
    with Run(mean=mean) as run:
        print(f"began with {mean.of}")
        for _ in range(2):
            mean.of += 1 + rank
            run.advance()
            assert not run.save(), "it saves at the next end of a step that all ranks reach, or at the end"
        torch.distributed.barrier()  # rank 0, which serves the store, must not end while rank 1 waits for an answer
        run.left = True


def test_values_that_begin_to_differ_are_saved_for_each_rank(tmp_path: Path) -> None:
    """Breaks if a resume gives every rank the values of rank 0, or if a training ends because of such values."""
    for attempt in (1, 2):
        assert ranks(tmp_path, attempt, begins_to_differ) == [0, 0], said(tmp_path, attempt, 0) + said(
            tmp_path, attempt, 1
        )
    assert [f"began with {2.0 * (1 + rank)}" in said(tmp_path, 2, rank) for rank in (0, 1)] == [True, True]


def enter_before_the_group(folder: Path, rank: int) -> None:
    import torch

    from holdfast_train import Run

    with Run(model=torch.nn.Linear(2, 2)):
        raise AssertionError("entered")


def test_a_run_that_is_entered_before_the_process_group_is_refused(tmp_path: Path) -> None:
    assert ranks(tmp_path, 1, enter_before_the_group) == [1, 1]
    for rank in (0, 1):
        found = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        assert found["reason"] == "StateInvalid"
        assert f"rank {rank} of 2" in found["message"]
        assert "init_process_group() before `with Run(...)`" in found["message"]


def evaluates(folder: Path, rank: int) -> None:
    """Rank 0 is in its second step until rank 1 has done all of its own."""
    import torch

    from holdfast_train import Run

    with Run(model=torch.nn.Linear(2, 2)) as run:
        for step in run.steps(200):
            if rank == 0 and step == 1:
                wait_for((folder / "done").exists, WAIT, "rank 1 to do all its steps")
            if rank == 1 and step == 199:
                (folder / "done").touch()


def test_no_step_waits_for_another_rank(tmp_path: Path) -> None:
    """Breaks if a rank that evaluates for hours holds up the others, or ends them by a timeout."""
    assert ranks(tmp_path, 1, evaluates) == [0, 0], said(tmp_path, 1, 0) + said(tmp_path, 1, 1)
    assert log(tmp_path).state.complete is not None


def ends_in_the_block(folder: Path, rank: int) -> None:
    """The last step is saved in the background, and committed before the block ends."""
    import torch

    from holdfast_train import Run

    with Run(model=torch.nn.Linear(2, 2)) as run:
        for _ in range(10):
            torch.distributed.barrier()
            run.advance()
        if rank == 0:
            wait_for(lambda: run._saving.saved_step == 10, WAIT, "the commit")


def test_ranks_agree_whether_the_last_step_is_saved(tmp_path: Path) -> None:
    every = {"every": Every(10)}
    assert ranks(tmp_path, 1, ends_in_the_block, **every) == [0, 0], said(tmp_path, 1, 1)
    assert [commit.step for commit in log(tmp_path).state.commits] == [10]
    assert log(tmp_path).state.complete is not None


def saves_and_waits(folder: Path, rank: int) -> None:
    import torch

    from holdfast_train import Run

    with Run(model=torch.nn.Linear(1000, 4000)) as run:
        run.advance()
        run.save()  # at the end of the block, since no step follows


def test_the_limit_of_the_upload_rate_is_lifted_on_all_ranks(tmp_path: Path) -> None:
    """With the limit, the 8 MB of a rank take hours: the processes would be killed."""
    assert ranks(tmp_path, 1, saves_and_waits, upload_rate=1000) == [0, 0]
    assert len(log(tmp_path).state.commits) == 1


def is_told_to_leave(folder: Path, rank: int) -> None:
    """Rank 1 alone gets SIGTERM, in its third step; the ranks keep step as a gradient would make them."""
    import torch

    from holdfast_train import Run

    with Run(model=torch.nn.Linear(2, 2)) as run:
        for step in run.steps(100):
            torch.distributed.barrier()
            if rank == 1 and step == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            if step == 2:
                wait_for(lambda: run._agreement._agreed, WAIT, "the ranks to agree")
        print(f"left at {run.step}")


def test_all_ranks_leave_at_the_end_of_the_step_in_which_one_was_told_to(tmp_path: Path) -> None:
    assert ranks(tmp_path, 1, is_told_to_leave) == [0, 0], said(tmp_path, 1, 0) + said(tmp_path, 1, 1)
    assert ["left at 3" in said(tmp_path, 1, rank) for rank in (0, 1)] == [True, True]
    assert [commit.step for commit in log(tmp_path).state.commits] == [3]


def saves_every_third(folder: Path, rank: int) -> None:
    import torch

    from holdfast_train import Run

    with Run(model=torch.nn.Linear(2, 2)) as run:
        for _ in run.steps(10):
            torch.distributed.barrier()
            settle(run)


def test_saves_by_steps_are_at_their_steps(tmp_path: Path) -> None:
    """Ranks agree one step ahead. Breaks if a save comes a step late."""
    every = {"every": Every(3), "keep": Keep(9)}
    assert ranks(tmp_path, 1, saves_every_third, **every) == [0, 0], said(tmp_path, 1, 0)
    assert [commit.step for commit in log(tmp_path).state.commits] == [3, 6, 9, 10]


def has_its_own(folder: Path, rank: int) -> None:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from holdfast_train import Run, Values

    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(300, 700))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with Run(model=model, optimizer=optimizer, per_rank={"own": Values(rank=rank)}) as run:
        for _ in run.steps(3):
            model(torch.ones(4, 300) * (rank + 1)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    print(f"sum={sum(one.detach().double().sum().item() for one in model.parameters()):.6f}")


def test_each_rank_writes_its_share(tmp_path: Path) -> None:
    """Breaks if rank 0 writes all, if a rank's own state is lost, or if a checkpoint is not of the last step."""
    assert ranks(tmp_path, 1, has_its_own) == [0, 0], said(tmp_path, 1, 0) + said(tmp_path, 1, 1)
    storage = FolderStorage(tmp_path / "prefix")
    found = Checkpoints(storage, identity(2), Keep())
    found.log.refresh()
    restored = restore_whole(found)
    assert restored is not None
    weights = sum(value.double().sum().item() for value in restored.state["objects"]["model"].values())
    assert all(f"sum={weights:.6f}" in said(tmp_path, 1, rank) for rank in (0, 1))
    assert [own["objects"]["own"]["rank"] for own in restored.ranks] == [0, 1]
    sizes = [storage.size(key) for key in storage.keys("data/") if key.endswith(".0")]
    assert len(sizes) == 2
    assert max(sizes) < 1.5 * min(sizes)
