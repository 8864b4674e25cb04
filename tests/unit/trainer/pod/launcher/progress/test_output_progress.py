"""Which output is looked at, what is told of it, and that no output costs much."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.support.http.fake_operator import FakeOperator
from tests.support.trainer.launched import start
from tests.support.trainer.pod_settings import pod_variables
from tests.support.waiting import wait_for

from holdfast_train.pod.launcher.progress.output_progress import (
    LINE_BYTES,
    MOST_BYTES,
    OutputProgress,
)
from holdfast_train.pod.launcher.progress.patterns import patterns_of
from holdfast_train.pod.launcher.progress.relay import output_progress, progress

POD = {
    "operator_url": "http://127.0.0.1:9",
    "HOLDFAST_NAMESPACE": "ns",
    "HOLDFAST_JOB": "a",
    "HOLDFAST_ATTEMPT": "2",
}
TQDM = """
import sys, time
from tqdm import tqdm
bar = tqdm(range(40))
for step in bar:
    bar.set_postfix(loss=2.5 - step / 100)
    time.sleep(0.002)
"""


class Reader:
    """Reads output with one pattern, and keeps what is told."""

    def __init__(self) -> None:
        self.told: list[dict[str, str]] = []
        self.urls: list[str] = []
        self.progress = OutputProgress(patterns_of(["step {step}"]), self._take, self.urls.append)

    def _take(self, metrics: Mapping[str, str]) -> None:
        self.told.append(dict(metrics))

    def last(self) -> dict[str, str] | None:
        self.progress.finish()
        return self.told[-1] if self.told else None


@pytest.fixture
def reader() -> Iterator[Reader]:
    found = Reader()
    yield found
    found.progress.finish()


def test_lines_come_in_pieces_and_end_with_a_carriage_return(reader: Reader) -> None:
    reader.progress.add_err(b"\rst")
    reader.progress.add_err(b"ep 5\rother\r\n")
    assert reader.last() == {"step": "5"}


def test_an_unfinished_line_counts_if_nothing_follows(reader: Reader) -> None:
    reader.progress.add_out(b"\rstep 7")
    wait_for(lambda: reader.told == [{"step": "7"}], 30, "the unfinished line")


def test_a_program_that_reports_by_itself_is_not_read(reader: Reader) -> None:
    reader.progress.give_way()
    reader.progress.add_out(b"step 7\n")
    assert reader.last() is None


# Breaks if the rest of a line, whose beginning is left out, counts as a line.
@pytest.mark.parametrize("end", [b" step 7 ", b" step 7 \n", b"\xff\x00\xfe"])
def test_a_line_without_an_end_is_left_out(reader: Reader, end: bytes) -> None:
    for _ in range(16):
        reader.progress.add_out(b"\x80" * MOST_BYTES)
    reader.progress.add_out(end)
    reader.progress.add_out(b"\nstep 9\n")
    assert reader.last() == {"step": "9"}


# Breaks in the same way: the newest MOST_BYTES begin in the middle of a line.
def test_a_line_whose_beginning_is_left_out_does_not_count(reader: Reader) -> None:
    kept = b" step 7 " + b"x" * (MOST_BYTES - 9) + b"\n"
    reader.progress.add_out(b"eval" + kept)
    assert reader.last() is None


def test_the_end_of_a_long_line_is_not_looked_at(reader: Reader) -> None:
    reader.progress.add_out(b"x" * LINE_BYTES + b" step 7\n")
    assert reader.last() is None


# Breaks if memory or time grows with the output.
def test_a_flood_of_lines_costs_little(reader: Reader) -> None:
    thread = next(each for each in threading.enumerate() if each.name == "output-progress")
    block = b"".join(b"step %d of a line of output\n" % step for step in range(9_000, 10_000))
    began = time.thread_time()
    for _ in range(300):
        reader.progress.add_out(block)
        assert len(reader.progress._streams[0].fresh) <= MOST_BYTES
    assert time.thread_time() - began < 1
    assert reader.last() == {"step": "9999"}
    assert not thread.is_alive()


# Breaks if a colour in a line, or the zeros of UTF-16, hide what a pattern fits.
@pytest.mark.parametrize("text", ["\x1b[32mstep \x1b[1;36m7\x1b[0m\n", "s\0t\0e\0p\0 \0" + "7\0\n\0"])
def test_what_a_terminal_does_not_show_is_not_read(reader: Reader, text: str) -> None:
    reader.progress.add_err(text.encode())
    assert reader.last() == {"step": "7"}


@pytest.mark.parametrize(
    ("given", "more"),
    [((), {}), (("tqdm",), {"HOLDFAST_RANK": "1"}), (("tqdm",), {"HOLDFAST_JOB": ""}), (("{x}",), {})],
)
def test_no_reader(given: tuple[str, ...], more: dict[str, str]) -> None:
    with progress(pod_variables({}, **{**POD, **more}, patterns=given), None) as (_, listeners):
        assert listeners == (None, None)


# Breaks if a program has two runs one after the other and the first one counts; or if a trainer that posts its status,
# as Hugging Face's does before it prints the address, has none.
def test_the_newest_run_of_wandb_is_found_also_of_a_program_that_reports_by_itself(reader: Reader) -> None:
    reader.progress.give_way()
    reader.progress.add_err(b"wandb: View run at https://wandb.ai/me/faces/runs/1\nstep 7\n")
    reader.progress.add_err(b"wandb: View run at https://wandb.ai/me/faces/runs/2\n")
    assert reader.last() is None
    assert reader.urls[-1] == "https://wandb.ai/me/faces/runs/2"


# Breaks if the output of a job whose trainer.tracking.wandb is off is taken for the words of a tracker.
@pytest.mark.parametrize("is_on", [True, False])
def test_the_output_is_read_for_a_run_if_the_job_says_so(is_on: bool) -> None:
    urls: list[str] = []
    own = pod_variables({}, **POD, patterns=("tqdm",), wandb=is_on)
    reader = output_progress(own, lambda _: None, urls.append)
    assert reader is not None
    reader.add_out(b"wandb: View run at https://wandb.ai/me/faces/runs/1\n")
    reader.finish()
    assert bool(urls) is is_on


# Breaks if an unmodified program in a real launcher shows no progress, or if its output does not go on as it was.
def test_an_unmodified_loop_with_tqdm_is_read(tmp_path: Path) -> None:
    operator = FakeOperator()
    variables = {**POD, "operator_url": f"http://127.0.0.1:{operator.server.server_port}", "patterns": ("tqdm",)}
    variables["token_file"] = str(tmp_path / "token")
    (tmp_path / "token").write_text("secret")
    try:
        process: subprocess.Popen[str] = start(tmp_path / "log", sys.executable, "-c", TQDM, **variables)
        _, err = process.communicate(timeout=60)
    finally:
        operator.server.shutdown()
        operator.server.server_close()
    assert process.returncode == 0
    assert "40/40" in err
    path, _, report = operator.got[-1]
    assert path == "/v1/namespaces/ns/jobs/a/progress"
    assert (report["step"], report["steps"], report["figures"]["loss"]) == (40, 40, "2.11")
