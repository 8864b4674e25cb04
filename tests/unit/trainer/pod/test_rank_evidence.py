"""How a rank answers its launcher: in the folder of its attempt, and in no other one."""

import json
import threading
from pathlib import Path

import pytest
from tests.support.waiting import wait_for

from holdfast_train.pod import rank_evidence
from holdfast_train.pod.rank_evidence import answer_launcher, collectives

ENTRY = {
    "is_p2p": False,
    "process_group": ["0", "default_pg"],
    "profiling_name": "gloo:all_reduce",
    "state": "scheduled",
    "input_sizes": [[2]],
}


def threads() -> int:
    return sum(thread.name == "rank-evidence" for thread in threading.enumerate())


def test_a_second_attempt_in_the_process_answers_in_its_own_folder(tmp_path: Path) -> None:
    """Breaks if a program that restarts in place writes where no launcher looks, or leaves threads behind."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        answer_launcher(str(tmp_path / name), 3)
    (tmp_path / "second" / "ask-3").write_bytes(b"?")
    answer = tmp_path / "second" / "collectives-3.json"
    wait_for(answer.exists, 60, "the answer")
    assert isinstance(json.loads(answer.read_text()), dict)
    assert "test_rank_evidence.py" in (tmp_path / "second" / "stacks-3").read_text()
    assert (tmp_path / "first" / "stacks-3").read_text() == ""
    answer_launcher(None, 3)
    wait_for(lambda: threads() == 0, 60, "the end of the threads")


def test_a_folder_that_is_gone_ends_no_training(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    answer_launcher(str(tmp_path / "gone"), 0)
    assert "rank 0 cannot say where" in capfd.readouterr().err


def test_collectives_are_counted_by_process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if messages between two ranks count, or another group's number stands for this one."""
    entries = [
        *({**ENTRY, "collective_seq_id": number} for number in range(1, 12)),
        {**ENTRY, "collective_seq_id": 40, "is_p2p": True},
        {**ENTRY, "collective_seq_id": 2, "process_group": ["1", "dp"]},
    ]

    class Torch:
        @staticmethod
        def _dump_fr_trace_json() -> bytes:
            return json.dumps({"entries": entries}).encode()

        @staticmethod
        def _dump_nccl_trace_json() -> bytes:
            return b'{"pg_status": {}}'

    monkeypatch.setitem(rank_evidence.sys.modules, "torch._C._distributed_c10d", Torch)
    found = collectives()
    assert {name: one["number"] for name, one in found.items()} == {"gloo 0": 11, "gloo 1": 2}
    assert [one["number"] for one in found["gloo 0"]["last"]] == [4, 5, 6, 7, 8, 9, 10, 11]


def test_a_version_of_torch_that_tells_them_in_another_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a rank answers no second question after that: its stacks are what people need most."""

    class Torch:
        @staticmethod
        def _dump_fr_trace_json() -> bytes:
            return b'{"entries": [{"is_p2p": false}]}'

    monkeypatch.setitem(rank_evidence.sys.modules, "torch._C._distributed_c10d", Torch)
    answer_launcher(str(tmp_path), 0)
    stacks = tmp_path / "stacks-0"
    for count in (1, 2):
        (tmp_path / "ask-0").write_bytes(b"?")
        wait_for(lambda count=count: stacks.read_text().count("in _run") >= count, 60, "the stacks")
    answer_launcher(None, 0)
