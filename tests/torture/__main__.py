"""`make torture`: kill trainers and writers at random points, and see that no commit is ever lost.

    python -m tests.torture --trials 1000 [--seed 1] [--storage folder|s3|both] [--job 3] [--folders 300]

Trials come in jobs of 25, each on a prefix of its own. After them come kills of trainings with checkpoint.folder on
several nodes. The last lines have the figures. If something that must be true is not, it ends with 1, says how to
repeat that job, and keeps a copy of the job's folder. tests/integration/trainer/test_torture.py runs some trials, and
test_torture_folders.py some of the other kills.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tests.support.guard import temporary_folder
from tests.support.http.s3_server import S3Server
from tests.torture.campaign import Tally, plans, run_job
from tests.torture.chain import BrokenError
from tests.torture.folders import Tally as FoldersTally
from tests.torture.folders import run_folders
from tests.torture.places import in_bucket, in_folder
from tests.torture.server import ForkServer

JOB = 25


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=1000, metavar="N", help="how many kills; 1000 if it is not given")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="what chooses the points; 1 if it is not given"
    )
    parser.add_argument("--job", type=int, metavar="N", help="only this job of 25 trials, to repeat it")
    parser.add_argument("--storage", choices=["folder", "s3", "both"], default="both", help="both take turns")
    parser.add_argument(
        "--folders",
        type=int,
        default=300,
        metavar="N",
        help="how many kills with checkpoint.folder; 300, or 0 with --job",
    )
    return parser.parse_args(arguments)


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """The S3 server, with a bucket."""
    folder.mkdir()
    server = S3Server(folder)
    server.start()
    try:
        (folder / server.bucket).mkdir()
        yield server
    finally:
        server.kill()


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if everything held, 1 if not."""
    wanted = parse(arguments)
    begun, tally, err = monotonic(), Tally(), Console(stderr=True)
    jobs = range(-(-wanted.trials // JOB)) if wanted.job is None else range(wanted.job, wanted.job + 1)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    with (
        temporary_folder("holdfast-torture-") as folder,
        s3_server(folder / "s3") as s3,
        ForkServer(folder) as server,
        Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress,
    ):
        total = wanted.trials if wanted.job is None else JOB
        task = progress.add_task("trials", total=total)
        for job in jobs:
            bucket = wanted.storage == "s3" or (wanted.storage == "both" and job % 2 == 1)
            home = folder / f"job-{job}"
            home.mkdir()
            place = in_bucket(s3) if bucket else in_folder(home)
            todo = plans(wanted.seed, job, min(JOB, total - tally.trials))
            try:
                seed = f"{wanted.seed} {job}"
                run_job(server, place, todo, seed=seed, folder=home, tally=tally, done=lambda: progress.advance(task))
            except BrokenError as error:
                progress.stop()
                again = f"--seed {wanted.seed} --job {job} --storage {'s3' if bucket else 'folder'}"
                kept = shutil.copytree(folder, tempfile.mkdtemp(prefix="holdfast-broken-"), dirs_exist_ok=True)
                print(
                    f"broken in {place.uri}: {error}\na copy of its files: {kept}\n"
                    f"repeat it: make torture ARGS='{again}'",
                    file=sys.stderr,
                )
                return 1
            shutil.rmtree(home)
    print(f"{tally.line()} ({monotonic() - begun:.0f} s, seed {wanted.seed})")
    return 0 if wanted.job is not None else folders(wanted.folders, wanted.seed)


def folders(kills: int, seed: int) -> int:
    """Kill writers and programs of folders on several nodes. 0 if everything held, 1 if not."""
    begun, tally = monotonic(), FoldersTally()
    with temporary_folder("holdfast-torture-") as folder:
        try:
            run_folders(folder, kills, seed, tally)
        except (BrokenError, TimeoutError, AssertionError) as error:
            kept = shutil.copytree(folder, tempfile.mkdtemp(prefix="holdfast-broken-"), dirs_exist_ok=True)
            again = f"--trials 0 --folders {kills} --seed {seed}"
            print(
                f"broken: {error}\na copy of its files: {kept}\nrepeat it: make torture ARGS='{again}'", file=sys.stderr
            )
            return 1
    print(f"{tally.line()} ({monotonic() - begun:.0f} s, seed {seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
