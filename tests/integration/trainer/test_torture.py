"""Trainers and writers killed at points that a seed chooses: some of the trials of `make torture`."""

from pathlib import Path

import pytest
from tests.support.http.s3_server import S3Server
from tests.torture.campaign import Tally, plans, run_job
from tests.torture.places import in_bucket, in_folder
from tests.torture.server import ForkServer

SEED, TRIALS = 26, 50


@pytest.mark.training
@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_no_commit_is_lost_whoever_is_killed_when(tmp_path: Path, s3: S3Server) -> None:
    """Breaks if a commit that a trainer was told of cannot be restored, if a restore is anything but the newest commit
    bit for bit, if a sweep takes what is needed, or if something that nobody needs is left in the end."""
    tally = Tally()
    with ForkServer(tmp_path) as server:
        for job, place in enumerate((in_folder(tmp_path), in_bucket(s3))):
            home = tmp_path / f"{job}"
            home.mkdir()
            run_job(server, place, plans(SEED, job, TRIALS), seed=f"{SEED} {job}", folder=home, tally=tally)
    phases, victims = {phase for _, phase in tally.kills}, {victim for victim, _ in tally.kills}
    assert tally.trials == sum(tally.kills.values()) == 2 * TRIALS
    assert phases >= {"restore", "capture", "upload", "commit", "sweep"}, tally.line()
    assert victims == {"trainer", "writer", "both"}
    assert tally.zombies > 0
    assert tally.fenced > 0
    assert tally.committed >= tally.acknowledged > TRIALS / 2
    print(tally.line())
