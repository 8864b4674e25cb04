"""Which rank of a training that hangs is at fault: a wrong one would cost a healthy node."""

from importlib.util import find_spec
from typing import Any

import pytest

from holdfast_protocol.hang import Hang
from holdfast_train.pod.launcher.hang.blame import by_stacks, facts, has_cause, place, suspects, waits, words

TORCH = "/venv/lib/python3.12/site-packages/torch"
REDUCE = f'  File "{TORCH}/distributed/distributed_c10d.py", line 9 in reduce'
WAITS = f'{REDUCE}\n  File "/work/train.py", line 42 in average'
BACKWARD = (
    f'  File "{TORCH}/autograd/graph.py", line 9 in _engine_run_backward\n  File "/work/train.py", line 50 in step'
)
LOADS = '  File "/usr/lib/python3.12/socket.py", line 7 in readinto\n  File "/work/data.py", line 88 in next_batch'
SAVES = '  File "/work/disk.py", line 5 in write'


def report(main: str, other: str = "0x00007f11") -> str:
    """As Python's faulthandler writes it, with the main thread last."""
    return (
        f'Thread {other} (most recent call first):\n  File "/usr/lib/python3.12/threading.py", line 359 in wait\n\n'
        f'Current thread {other}00 (most recent call first):\n{main}\n  File "/work/train.py", line 60 in <module>\n'
    )


def rank(
    number: int, main: str = WAITS, *, state: str = "S", step: int | None = 5, groups: dict[str, int] | None = None
) -> dict[str, Any]:
    told = {name: {"name": name, "number": count, "last": []} for name, count in (groups or {}).items()}
    stacks = report(main, f"0x{number:08x}") if main else ""
    return {"rank": number, "step": step, "state": state, "stacks": stacks, "collectives": told}


WHOLE, HALF = "gloo 0", "nccl 1"
TABLE = [
    ([], [], ""),
    ([rank(0), rank(1)], [], "; a rank was in average (train.py, line 42)"),
    ([rank(0, "")], [], ""),
    # One rank alone is not compared with any other.
    ([rank(0, LOADS, state="T")], [], "; a rank was in next_batch (data.py, line 88)"),
    # A stopped process explains all the rest, also if its numbers are missing.
    (
        [rank(0, groups={WHOLE: 7}), rank(1, LOADS, state="T"), rank(2, LOADS, groups={WHOLE: 6})],
        [1],
        "; rank 1 is at fault in next_batch (data.py, line 88): its process is stopped by a signal",
    ),
    ([rank(0), rank(1, "", state="Z")], [1], "; rank 1 is at fault: its process has ended"),
    # Numbers of collectives: the rank that has entered the fewest, and the group that names the fewest ranks.
    (
        [rank(0, groups={WHOLE: 7}), rank(1, BACKWARD, groups={WHOLE: 6}), rank(2, groups={WHOLE: 7})],
        [1],
        "; rank 1 is at fault in step (train.py, line 50): it has entered 6 collectives of process group gloo 0, "
        "and others 7",
    ),
    ([rank(n, groups={WHOLE: 7 - (n > 0), HALF: 9 - (n == 3)}) for n in range(4)], [3], None),
    ([rank(n, groups={WHOLE: 7 - n}) for n in range(3)], [2], None),
    ([rank(0, groups={WHOLE: 7}), rank(1, groups={HALF: 2})], [], None),
    # Stacks: the rank that does not wait for others, and the rank that is elsewhere.
    ([rank(0), rank(1), rank(2, LOADS), rank(3)], [2], None),
    ([rank(0), rank(1, BACKWARD), rank(2, LOADS)], [2], None),
    ([rank(0, BACKWARD), rank(1, LOADS)], [1], None),
    ([rank(0), rank(1, "")], [], None),
    ([rank(0, LOADS), rank(1, LOADS), rank(2, SAVES)], [2], None),
    ([rank(0, LOADS), rank(1, SAVES)], [], None),
    # Steps, if nothing else tells them apart.
    (
        [rank(0, LOADS), rank(1, SAVES, step=4)],
        [1],
        "; rank 1 is at fault in write (disk.py, line 5): it has done 4 steps, and others 5",
    ),
    ([rank(0, step=None), rank(1, step=None)], [], None),
    (
        [rank(0), rank(1, LOADS), rank(2, LOADS), rank(3)],
        [1, 2],
        "; rank 1 is at fault in next_batch (data.py, line 88): it does not wait for other ranks, and others do, as "
        "rank 2",
    ),
]


@pytest.mark.parametrize(("ranks", "expected", "text"), TABLE)
def test_who_is_at_fault(ranks: list[dict[str, Any]], expected: list[int], text: str | None) -> None:
    assert [one.rank for one in suspects(reversed(ranks))] == expected
    if text is not None:
        assert words(ranks) == text


@pytest.mark.parametrize(
    ("stacks", "where"),
    [
        (report(WAITS), "average (train.py, line 42)"),
        (
            f"Thread 0x1 (most recent call first):\n{REDUCE}\n",
            "reduce (distributed_c10d.py, line 9)",
        ),
        ("Thread 0x1 (most recent call first):\n", ""),
        (f"step 3\n{WAITS}", ""),
        (report(WAITS) + "Extension modules: torch._C (total: 20)\n", "average (train.py, line 42)"),
    ],
)
def test_the_place_is_the_innermost_frame_of_the_program(stacks: str, where: str) -> None:
    assert place(stacks) == where


OWN_FUNCTION = f'  File "/work/layer.py", line 3 in backward\n{BACKWARD}'
AGREES = (
    '  File "/usr/lib/python3.12/threading.py", line 359 in wait\n'
    '  File "/venv/lib/python3.12/site-packages/holdfast_train/run/step_agreement.py", line 5 in is_agreed'
)


@pytest.mark.parametrize(
    ("main", "expected"),
    [(WAITS, True), (BACKWARD, True), (AGREES, True), (LOADS, False), (OWN_FUNCTION, False), ("", None)],
)
def test_what_waits_for_other_ranks(main: str, expected: bool | None) -> None:
    """Breaks if a rank that hangs in a function of its own, inside the backward pass, counts as one that waits."""
    assert waits(report(main) if main else "") is expected


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([], False),
        ([rank(0), rank(1, "")], False),
        ([rank(0), rank(1, LOADS)], True),
        ([rank(0), rank(1, state="T")], True),
        ([rank(0, LOADS, groups={WHOLE: 5})], True),
        ([rank(0, LOADS, groups={HALF: 5})], False),
    ],
)
def test_whether_a_node_is_the_cause(ranks: list[dict[str, Any]], expected: bool) -> None:
    """Breaks if a node that waits, through NCCL, for an evaluation on another node ends a good training."""
    assert has_cause(ranks) is expected


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([], Hang()),
        ([rank(0), rank(1, LOADS)], Hang(waits=False)),
        ([rank(0), rank(1, "")], Hang()),
        (
            [rank(0, groups={WHOLE: 7, HALF: 3}), rank(1, groups={WHOLE: 6})],
            Hang(entered={WHOLE: 6}, waits=True),
        ),
        ([rank(0), rank(1, state="T")], Hang(stopped=True, waits=True)),
    ],
)
def test_what_the_operator_compares(ranks: list[dict[str, Any]], expected: Hang) -> None:
    assert facts(ranks) == expected


def test_a_stack_of_several_ranks_is_there_once() -> None:
    found = by_stacks([rank(0), rank(1, LOADS), rank(2), rank(3, "")])
    assert [members for members, _ in found] == [[0, 2], [1]]
    assert "line 42 in average" in found[0][1]


@pytest.mark.parametrize("module", ["holdfast_train.ranks", "holdfast_train.run.step_agreement"])
def test_a_rank_that_waits_in_the_library_waits(module: str) -> None:
    """Breaks if a file of the library in which ranks wait is renamed: a rank there would be said to be at fault."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    assert waits(report(f'  File "{spec.origin}", line 1 in agree\n  File "/work/train.py", line 42 in step'))
