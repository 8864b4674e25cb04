"""The verdict has the words of the program, and of torchrun's report only which rank failed first."""

import json
import sys
from pathlib import Path

import pytest
from tests.support.trainer.launched import start

from holdfast_protocol.verdict import LINES_KEPT
from holdfast_train.pod.launcher.torchrun_report import last_lines

TRACE = [
    "Traceback (most recent call last):",
    '  File "/usr/local/bin/torchrun", line 8, in <module>',
    "    sys.exit(main())",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
]
REPORT = [
    "============================================================",
    "train.py FAILED",
    "Failures:",
    "[1]:",
    "  rank      : 1 (local_rank: 1)",
    "  exitcode  : -15 (pid: 12)",
    "------------------------------------------------------------",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-01-02_03:04:05",
    "  rank      : 0 (local_rank: 0)",
    "  exitcode  : 42 (pid: 11)",
    "  error_file: <N/A>",
    "============================================================",
]
# What versions of torch print before that.
BEGIN = [
    "E0102 03:04:05.0 7 lib/torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 42) local",
    "[2023-01-02 03:04:05,678] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 42) local",
    "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 42) local_rank: 0 (pid: 11) of binary",
]
OTHERS = (
    "W0102 03:04:05.0 7 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 12 closing signal SIGTERM"
)
CAUSE = "Root Cause: rank 0 (local_rank: 0), exitcode: 42 (pid: 11)"


@pytest.mark.parametrize("begin", BEGIN)
def test_the_programs_words_stay(begin: str) -> None:
    errors = ["ValueError: no such file", OTHERS, begin, *TRACE, *REPORT]
    assert last_lines(errors, ["epoch 1"]) == ("ValueError: no such file", CAUSE)


def test_a_report_whose_beginning_was_not_kept() -> None:
    assert last_lines(["ValueError: no", *TRACE[-1:], *REPORT], []) == ("ValueError: no", CAUSE)


def test_the_output_counts_if_the_program_has_written_no_error() -> None:
    assert last_lines([OTHERS, BEGIN[0], *TRACE, *REPORT], ["disk is full"]) == ("disk is full", CAUSE)


def test_the_newest_lines_are_kept_and_the_cause_has_its_place() -> None:
    kept = last_lines([*map(str, range(90)), BEGIN[0], *TRACE, *REPORT], [])
    assert kept == (*map(str, range(90 - LINES_KEPT + 1, 90)), CAUSE)


BAD = [f"[rank1]: {line}" for line in ("Traceback (most recent call last):", "ValueError: this batch is bad")]


def lost(rank: int) -> list[str]:
    """What a rank prints whose peer is gone."""
    reset = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4711"
    return [f"[rank{rank}]: {line}" for line in ("Traceback (most recent call last):", *map(str, range(9)), reset)]


def test_the_words_of_the_rank_that_failed_by_itself_are_not_lost_among_those_of_its_peers() -> None:
    """Breaks if a node with several ranks seems to have lost another node, because one of its ranks has failed."""
    errors = ["a warning", *lost(0), *BAD, *lost(2), *lost(3), BEGIN[0], *TRACE, *REPORT]
    assert last_lines(errors, []) == ("a warning", *BAD, CAUSE)


def test_a_node_whose_ranks_have_all_lost_a_peer_says_so() -> None:
    assert last_lines([*lost(0), BEGIN[0], *TRACE, *REPORT], []) == (*lost(0), CAUSE)


@pytest.mark.parametrize(
    ("errors", "output", "kept"),
    [
        (["a", "b"], ["c"], ("a", "b")),
        ([], ["c"], ("c",)),
        ([], [], ()),
        (
            ["the program names torch.distributed.elastic itself"],
            [],
            ("the program names torch.distributed.elastic itself",),
        ),
        (
            ["subprocess.CalledProcessError: Command of the program itself"],
            [],
            ("subprocess.CalledProcessError: Command of the program itself",),
        ),
        ([OTHERS, BEGIN[0], "RuntimeError: of torchrun"], [], (OTHERS, BEGIN[0], "RuntimeError: of torchrun")),
    ],
)
def test_everything_else_stays_as_it_is(errors: list[str], output: list[str], kept: tuple[str, ...]) -> None:
    assert last_lines(errors, output) == kept


# Breaks if this version of torchrun prints another report.
def test_a_real_torchrun(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('the data server is away\\n'); sys.exit(42)"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
    process = start(tmp_path / "log", *torchrun, sys.executable, "-c", code, OMP_NUM_THREADS="1")
    _, errors = process.communicate(timeout=120)
    assert "ChildFailedError" in errors, "the log of the container is complete"
    verdict = json.loads((tmp_path / "log").read_text())
    *own, cause = verdict["lastLines"]
    assert set(own) == {"the data server is away"}
    assert cause.startswith("Root Cause: rank ")
    assert "exitcode: 42 (pid: " in cause
    assert verdict["message"] == "the program ended with exit code 1: the data server is away"
