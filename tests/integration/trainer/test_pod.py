"""Launcher, library and S3 together, as processes: what a training pod does."""

import json
import sys
import uuid
from pathlib import Path

import psutil
import pytest
from tests.support.cluster.training_jobs import processes_of
from tests.support.http.progress_endpoint import Endpoint
from tests.support.http.s3_server import S3Server
from tests.support.trainer.pods import Pod
from tests.support.trainer.stores import LAUNCHER, stub_command, variables
from tests.support.waiting import wait_for
from typer.testing import CliRunner

from holdfast_cli.main import app
from holdfast_protocol.settings import Every


@pytest.fixture
def prefix(s3: S3Server) -> str:
    return f"s3://{s3.bucket}/pods/{uuid.uuid4().hex}"


def stub(folder: Path, s3: S3Server, prefix: str, attempt: int, *options: str, **more: str) -> Pod:
    return Pod(folder, stub_command(*options), **variables(prefix, attempt, **s3.variables), **more)


def test_sigterm_saves_and_the_next_attempt_goes_on(tmp_path: Path, s3: S3Server, prefix: str) -> None:
    first = stub(tmp_path, s3, prefix, 1, "--steps=60", "--step-seconds=0.02")
    first.wait_for("step 5 ")
    first.terminate()
    verdict = first.end()
    assert (verdict["outcome"], verdict["reason"]) == ("drained", "SavedAndLeft")
    assert verdict["savedStep"] == verdict["step"] >= 5
    second = stub(tmp_path, s3, prefix, 2, "--steps=60", "--step-seconds=0")
    verdict = second.end()
    assert verdict["outcome"] == "completed"
    assert "done at step 60, total 1830" in second.output  # no step lost, none done twice
    third = stub(tmp_path, s3, prefix, 3, "--steps=60")
    verdict = third.end()
    assert (verdict["outcome"], verdict["reason"], verdict["step"]) == ("completed", "AlreadyComplete", 60)
    assert third.process.returncode == 0


def test_drain_order_through_the_endpoint(tmp_path: Path, s3: S3Server, prefix: str, endpoint: Endpoint) -> None:
    """Exit 0 without SIGTERM, and still no completion."""
    pod = stub(tmp_path, s3, prefix, 1, "--steps=100000", "--step-seconds=0.01", **endpoint.variables)
    endpoint.wait_for(lambda r: r["step"] is not None)
    endpoint.order("drain", 10.0)
    verdict = pod.end()
    assert (verdict["outcome"], verdict["reason"], pod.process.returncode) == ("drained", "SavedAndLeft", 0)
    assert endpoint.reports[-1]["state"] == "left"


def test_crash_resumes_from_the_last_periodic_save(tmp_path: Path, s3: S3Server, prefix: str) -> None:
    more = {"every": Every(10)}
    pod = Pod(
        tmp_path, stub_command("--steps=60", "--step-seconds=0.02"), **variables(prefix, 1, **s3.variables, **more)
    )
    pod.wait_for("saved step 20")
    pod.kill_program()
    second = stub(tmp_path, s3, prefix, 2, "--steps=60", "--step-seconds=0")
    assert second.end()["outcome"] == "completed"
    assert "resumed from step " in second.output
    assert "total 1830" in second.output


def test_a_broken_checkpoint_is_read_by_one_attempt_only(tmp_path: Path) -> None:
    """Breaks if an attempt that is lost soon after its start does not record the broken checkpoint."""
    prefix, folder = f"file://{tmp_path}/prefix", tmp_path / "prefix"
    every = {"every": Every(5)}
    first = Pod(tmp_path, stub_command("--steps=100000", "--step-seconds=0.05"), **variables(prefix, 1, **every))
    first.wait_for("saved step 10")
    first.kill_program()
    commits = json.loads(newest_record(folder))["state"]["commits"]
    broken = folder / "manifests" / f"{commits[-1]['name']}.json"
    whole = broken.read_bytes()
    broken.write_bytes(b"x" * len(whole))
    second = Pod(tmp_path, stub_command("--steps=100000", "--hang-at=1"), **variables(prefix, 2))
    second.wait_for("resumed from step ")
    second.kill_program()
    assert second.output.count("is broken") == 3  # read twice, and what it resumed from says why
    assert kinds(folder)[-2:] == ["fence", "quarantine"]
    third = Pod(tmp_path, stub_command("--steps=100000", "--step-seconds=0.01"), **variables(prefix, 3))
    third.wait_for("resumed from step ")
    assert "is broken" not in third.output
    assert f"the checkpoint of step {commits[-1]['step']} is in quarantine" in third.output
    third.terminate()
    assert third.end()["reason"] == "SavedAndLeft"
    broken.write_bytes(whole)
    taken = CliRunner().invoke(app, ["checkpoints", "verify", prefix, commits[-1]["name"], "--take-back"])
    assert taken.exit_code == 0, taken.output
    assert not [c for c in json.loads(newest_record(folder))["state"]["commits"] if c["corrupt"]]


def newest_record(folder: Path) -> str:
    """The newest record of the log in a folder."""
    return max((folder / "log").iterdir()).read_text()


def test_zombie_ends_fenced_when_its_successor_has_started(tmp_path: Path, s3: S3Server, prefix: str) -> None:
    more = {"every": Every(10)}
    zombie = Pod(
        tmp_path, stub_command("--steps=100000", "--step-seconds=0.02"), **variables(prefix, 1, **s3.variables, **more)
    )
    zombie.wait_for("saved step 10")
    successor = stub(tmp_path, s3, prefix, 2, "--steps=100000", "--step-seconds=0.02")
    verdict = zombie.end()
    assert (verdict["outcome"], verdict["reason"]) == ("fenced", "Fenced")
    assert "attempt 2" in verdict["message"]
    successor.terminate()
    assert successor.end()["reason"] == "SavedAndLeft"


def test_s3_down_during_saves(tmp_path: Path, s3: S3Server, prefix: str, endpoint: Endpoint) -> None:
    """Training goes on over saves that fail, and is complete and whole in the end.

    Breaks if the pod does not report the silence of the storage before it gives a save up, or not its end.
    """
    more = {"every": Every(20), **endpoint.variables}
    pod = Pod(
        tmp_path, stub_command("--steps=400", "--step-seconds=0.01"), **variables(prefix, 1, **s3.variables, **more)
    )
    pod.wait_for("saved step 20")
    s3.kill()
    told = endpoint.wait_for(lambda report: report["storageSilence"] is not None)
    assert float(told["storageSilence"]["seconds"]) < 10
    assert told["saveError"] is None
    assert f"s3://{s3.bucket}" in told["storageSilence"]["why"]
    pod.wait_for("could not be saved")
    s3.start()
    verdict = pod.end(90)
    assert endpoint.reports[-1]["storageSilence"] is None
    assert verdict["outcome"] == "completed", pod.output
    assert "total 80200" in pod.output


def test_s3_down_at_the_start(tmp_path: Path, s3: S3Server, prefix: str, endpoint: Endpoint) -> None:
    """Breaks if a program that waits for its checkpoint looks, until it gives up, like one that trains."""
    s3.kill()
    pod = stub(tmp_path, s3, prefix, 1, "--steps=20", "--step-seconds=0", **endpoint.variables)
    told = endpoint.wait_for(lambda report: report["storageSilence"] is not None, 60)
    assert (told["state"], told["step"]) == ("starting", None)
    s3.start()
    assert pod.end(90)["outcome"] == "completed", pod.output
    assert endpoint.reports[-1]["storageSilence"] is None


def test_wrong_key_is_misconfiguration(tmp_path: Path, s3: S3Server, prefix: str) -> None:
    env = variables(prefix, 1, **s3.variables) | {"HOLDFAST_CHECKPOINT_SECRET_ACCESS_KEY": "wrong"}
    pod = Pod(tmp_path, stub_command("--steps=5"), **env)
    verdict = pod.end()
    assert (verdict["outcome"], verdict["reason"], verdict["exitCode"]) == ("misconfigured", "StorageDenied", 78)
    init = Pod(tmp_path, [sys.executable, "-m", "holdfast_train.pod.init_container"], **env)
    verdict = init.end()
    assert (verdict["outcome"], verdict["reason"], init.process.returncode) == ("misconfigured", "StorageDenied", 78)


def test_user_exception(tmp_path: Path, s3: S3Server, prefix: str) -> None:
    verdict = stub(tmp_path, s3, prefix, 1, "--fail-at=3", "--step-seconds=0").end()
    assert (verdict["outcome"], verdict["reason"], verdict["step"]) == ("failed", "UserException", 3)
    assert verdict["lastLines"][-1] == "RuntimeError: the stub was told to fail at step 3"


def test_program_that_does_not_leave(tmp_path: Path, s3: S3Server, prefix: str) -> None:
    """The kubelet kills it in the end; the launcher, if it is still there, says that nothing was saved."""
    pod = stub(tmp_path, s3, prefix, 1, "--ignore-sigterm", "--step-seconds=0.01", "--steps=100000")
    pod.wait_for("step 5 ")
    pod.terminate()
    verdict = pod.kill_program()
    assert (verdict["outcome"], verdict["reason"], verdict["signal"]) == ("drained", "LeftWithoutSaving", 9)


def kinds(folder: Path) -> list[str]:
    """What the log in a folder says."""
    return [json.loads(path.read_text())["kind"] for path in sorted((folder / "log").iterdir())]


@pytest.mark.parametrize("launched", [True, False])
def test_a_second_sigterm_in_a_long_step(tmp_path: Path, launched: bool) -> None:
    """Breaks if the pod waits for the end of the step, begins a save, or makes the next attempt wait."""
    command = stub_command("--hang-at=5", "--step-seconds=0.01")
    command = command if launched else command[command.index("--") + 1 :]
    env = variables(f"file://{tmp_path}/prefix", every=Every(2), grace=3600)
    env |= {"HOLDFAST_VERDICT_DIR": str(tmp_path)} if launched else {}
    pod = Pod(tmp_path, command, **env)
    pod.wait_for("step 5 ")
    pod.wait_for("saved step 4")
    pod.terminate()
    pod.signal_again(tmp_path)
    assert kinds(tmp_path / "prefix") == ["owner", "fence", "commit", "commit", "handover"], pod.output
    if not launched:
        assert pod.process.returncode == 143
        return
    verdict = pod.end()
    assert (verdict["outcome"], verdict["reason"], verdict["savedStep"]) == ("drained", "LeftWithoutSaving", 4)
    assert verdict["message"] == ("second notice to leave, at step 5: left at once; the newest checkpoint is of step 4")


def test_a_second_sigterm_while_a_checkpoint_is_on_its_way(tmp_path: Path) -> None:
    """Breaks if the commit does not get its seconds, or if an earlier handover makes the log refuse it."""
    prefix = f"file://{tmp_path}/prefix"
    env = variables(prefix, HOLDFAST_POD_UID=uuid.uuid4().hex, grace=3600)
    env["HOLDFAST_VERDICT_DIR"] = str(tmp_path)
    pod = Pod(tmp_path, stub_command("--steps=100000", "--step-seconds=0.01"), **env)
    pod.wait_for("step 5 ")
    writer, trainer = (process_of(env["HOLDFAST_POD_UID"], name) for name in ("holdfast_train.save.writer", "-m"))
    writer.suspend()
    pod.terminate()
    pod.wait_for("the time of a save is not known: trying one")

    def counts() -> bool:
        pod.terminate()
        return (tmp_path / "leave-now").exists()

    wait_for(counts, 60, "a pod that has counted a second SIGTERM")
    wait_for(lambda: not trainer.is_running(), 30, "the end of the trainer")
    writer.resume()
    verdict = pod.end()
    assert (verdict["outcome"], verdict["reason"], verdict.get("savedStep")) == ("drained", "LeftWithoutSaving", None)
    assert "left at once; no checkpoint is saved, and one is on its way" in verdict["message"]
    assert kinds(tmp_path / "prefix") == ["owner", "fence", "commit"]
    second = Pod(tmp_path, stub_command(f"--steps={verdict['step'] + 1}"), **variables(prefix, 2))
    assert second.end()["outcome"] == "completed"
    assert f"resumed from step {verdict['step']}" in second.output


def process_of(pod_uid: str, argument: str) -> psutil.Process:
    """The process of a pod, but for its launcher, with this argument."""

    def found() -> psutil.Process | None:
        commands = [(process, process.cmdline()) for process in processes_of(pod_uid)]
        fitting = [process for process, command in commands if argument in command and str(LAUNCHER) not in command]
        return min(fitting, key=lambda process: process.create_time(), default=None)

    process = wait_for(found, 30, f"a process with {argument}")
    assert process is not None
    return process


HANGS = """
import time, torch, torch.distributed as dist
from holdfast_train import Run
from holdfast_train.examples.stub import Counter

dist.init_process_group("gloo")
with Run(counter=Counter()) as run:
    for step in run.steps():
        if step == 3:
            print(f"rank {dist.get_rank()} hangs\\n", end="", flush=True)
            while True: time.sleep(1)
"""


@pytest.mark.training
@pytest.mark.thorough
def test_ranks_leave_at_once_on_a_second_sigterm(tmp_path: Path) -> None:
    """Breaks if torchrun does not pass the second signal on, or if a rank counts the first one as the second."""
    script = tmp_path / "train.py"
    script.write_text(HANGS)
    env = variables(f"file://{tmp_path}/prefix", HOLDFAST_POD_UID=uuid.uuid4().hex, grace=3600)
    env["HOLDFAST_VERDICT_DIR"] = str(tmp_path)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(script)]
    pod = Pod(tmp_path, [sys.executable, str(LAUNCHER), "--", *torchrun], **env)
    for rank in range(2):
        pod.wait_for(f"rank {rank} hangs", 120)
    pod.terminate()
    pod.wait_for("Sending process", 60)  # torchrun passes it on

    def verdicts() -> list[dict[str, object]]:
        return [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2)]

    assert [verdict["result"] for verdict in verdicts()] == ["running"] * 2
    pod.signal_again(tmp_path)
    assert pod.end()["reason"] == "LeftWithoutSaving", pod.output
    # On a busy machine torchrun may need longer to end than the launcher waits; each rank tells how it ended itself.
    ended = "second notice to leave, at step 3"
    wait_for(lambda: all(ended in str(one["message"]) for one in verdicts()), 60, f"both verdicts\n{pod.output}")
    wait_for(lambda: not processes_of(env["HOLDFAST_POD_UID"]), 60, "the end of all its processes")


TORCHRUN = """
import os, sys, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from holdfast_train import Run

class Numbers(Dataset):
    def __len__(self): return 100000
    def __getitem__(self, i): return torch.tensor([float(i % 7)])

if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    context = sys.argv[1]
    loader = iter(DataLoader(Numbers(), batch_size=2, num_workers=1, multiprocessing_context=context))
    with Run(model=model, optimizer=optimizer) as run:
        for step in run.steps():
            loss = model(next(loader)).square().mean()
            loss.backward(); optimizer.step(); optimizer.zero_grad()
            run.report(loss=loss, samples=2)
            if step % 20 == 0 and dist.get_rank() == 0: print("step", step, "x", flush=True)
    print(f"rank {dist.get_rank()} left at {run.step}\\n", end="", flush=True)  # one write: the others print too
    dist.destroy_process_group()
"""


@pytest.mark.training
@pytest.mark.thorough
@pytest.mark.parametrize(("context", "ranks"), [("fork", 2), ("spawn", 1)])
def test_torchrun_with_data_loader_workers_saves_when_told_to_leave(
    tmp_path: Path, s3: S3Server, prefix: str, context: str, ranks: int
) -> None:
    """torchrun signals the whole process group of each rank: workers that died of it would stop the save."""
    script = tmp_path / "train.py"
    script.write_text(TORCHRUN)
    command = [sys.executable, str(LAUNCHER), "--", sys.executable, "-m", "torch.distributed.run"]
    command += [f"--nproc-per-node={ranks}", "--standalone", str(script), context]

    def start(attempt: int) -> Pod:
        return Pod(tmp_path, command, **variables(prefix, attempt, **s3.variables))

    first = start(1)
    first.wait_for("step 20 x", 120)
    first.terminate()
    verdict = first.end()
    assert (verdict["outcome"], verdict["reason"]) == ("drained", "SavedAndLeft"), first.output
    assert verdict["savedStep"] == verdict["step"] >= 20
    assert f"rank {ranks - 1} left at {verdict['step']}" in first.output  # all at one step
    assert first.process.returncode == 0
    if ranks > 1:
        second = start(2)
        second.wait_for(f"resumed from step {verdict['step']}", 120)
        second.terminate()
        assert second.end()["reason"] == "SavedAndLeft"


SUCCESSOR = """
import time, torch, torch.distributed as dist
from holdfast_train import Run
from holdfast_train.examples.stub import Counter

dist.init_process_group("gloo")
counter = Counter()
with Run(counter=counter) as run:
    for step in run.steps(run.step + 50):
        counter.add(step)
print(f"rank {dist.get_rank()} ended at {run.step}, total {counter.total}\\n", end="", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.training
@pytest.mark.thorough
@pytest.mark.parametrize("told", [False, True])
def test_ranks_hold_together_until_their_predecessor_hands_over(tmp_path: Path, told: bool) -> None:
    """Or until they must leave: then no rank begins a step, and the predecessor trains on."""
    script = tmp_path / "train.py"
    script.write_text(SUCCESSOR)
    prefix = f"file://{tmp_path}/prefix"
    first = Pod(tmp_path, stub_command("--steps=100000", "--step-seconds=0.02"), **variables(prefix, 1))
    first.wait_for("step 5 ")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(script)]
    command = [sys.executable, str(LAUNCHER), "--", *torchrun]
    second = Pod(tmp_path, command, **variables(prefix, 2, HOLDFAST_PREDECESSOR="1"))
    second.wait_for("waits at the fence", 120)
    (second if told else first).terminate()
    verdict = second.end(120)
    if told:
        assert (verdict["outcome"], verdict["reason"]) == ("drained", "LeftWithoutSaving"), second.output
        assert "before attempt 1 had handed over" in verdict["message"]
        assert second.output.count("ended at 0, total 0") == 2
        assert first.process.poll() is None
        first.terminate()
        assert first.end()["reason"] == "SavedAndLeft"
        return
    step = first.end()["savedStep"]
    assert verdict["outcome"] == "completed", second.output
    assert f"attempt 1 has handed over at step {step}\n" in second.output
    assert second.output.count(f"resumed from step {step} ") == 2
    last = step + 50
    assert second.output.count(f"ended at {last}, total {last * (last + 1) // 2}") == 2


@pytest.mark.training
@pytest.mark.thorough
def test_language_model_moves_under_torchrun(tmp_path: Path, s3: S3Server, prefix: str) -> None:
    """Two ranks train, leave, and one rank alone goes on from their checkpoint."""
    options = ["--dim=32", "--layers=1", "--heads=2", "--context=32", "--steps=60", "--show-every=1"]
    module = ["-m", "holdfast_train.examples.language_model", *options]
    launcher = [sys.executable, str(LAUNCHER), "--", sys.executable]
    cache = {"HOLDFAST_CACHE": str(tmp_path)}
    two = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    first = Pod(tmp_path, [*launcher, *two, *module], **variables(prefix, 1, **s3.variables) | cache)
    first.wait_for("step     10/60", 120)
    first.terminate()
    assert first.end()["reason"] == "SavedAndLeft", first.output
    second = Pod(tmp_path, [*launcher, *module], **variables(prefix, 2, **s3.variables) | cache)
    assert second.end(120)["outcome"] == "completed", second.output
    assert "step     60/60" in second.output
