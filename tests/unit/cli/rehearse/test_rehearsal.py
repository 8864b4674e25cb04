"""The runs of a rehearsal: which of them are made, and what comes of them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast_cli.errors import CliError
from holdfast_cli.rehearse.as_json import as_json
from holdfast_cli.rehearse.asked import Asked
from holdfast_cli.rehearse.left import Interruption, Left, Start
from holdfast_cli.rehearse.ran import Planned, Ran
from holdfast_cli.rehearse.rehearsal import AGAIN, INTERRUPTED, UNDISTURBED, carry_out
from holdfast_cli.rehearse.schedule import Seen
from holdfast_train.storage.folder import FolderStorage

CRASH = Interruption.CRASH
Losses = dict[int, dict[str, float]]


def losses(*values: float) -> Losses:
    return {step: {"loss": value} for step, value in enumerate(values, 1)}


def start(number: int, *, ended_by: Interruption | None = None, code: int | None = 0) -> Start:
    resumed, first = (2, 3) if number > 1 else (None, 1)
    code = None if ended_by else code
    return Start(number, ended_by, code, resumed, resumed is not None, first, 4, 9.0, 1.0)


class Stage:
    """Runs whose losses are given, by the names of the runs."""

    def __init__(self, place: Path, *, saves: int = 4, code: int = 0, **runs: Losses) -> None:
        self.place, self.saves, self.code, self.runs = place, saves, code, runs
        self.not_tried: dict[Interruption, str] = {}
        self.made: list[str] = []
        self.plan: Sequence[Planned] = ()

    def ran(self, name: str, starts: tuple[Start, ...]) -> Ran:
        self.made.append(name)
        left = Left(
            name,
            FolderStorage(self.place / "job"),
            (self.place,),
            self.runs[name.rpartition(" ")[2]],
            starts,
            said="the last words",
        )
        return Ran(left, [Seen(4.0 * number, number) for number in range(1, self.saves + 1)], [], self.not_tried)

    def undisturbed(self, name: str) -> Ran:
        return self.ran(name, (start(1, code=self.code),))

    def interrupted(self, name: str, plan: Sequence[Planned]) -> Ran:
        self.plan = plan
        return self.ran(name, (start(1, ended_by=CRASH), start(2)))


SAME, OTHER = losses(4.0, 3.0, 2.0, 1.0), losses(4.0, 3.0, 2.5, 1.5)


# Breaks if the program runs a third time for nothing, or if it is blamed for what it does by itself.
@pytest.mark.parametrize(
    ("interrupted", "again", "kind", "passed", "third"),
    [
        (SAME, SAME, "exact", True, False),
        (OTHER, SAME, "differs", False, True),
        (OTHER, losses(4.0, 3.0, 2.2, 1.2), "not-proved", False, True),
    ],
)
def test_which_runs_are_made(
    tmp_path: Path, interrupted: Losses, again: Losses, *, kind: str, passed: bool, third: bool
) -> None:
    stage = Stage(tmp_path, undisturbed=SAME, interrupted=interrupted, again=again)
    done = carry_out(Asked((CRASH,)), stage)
    assert (str(done.verdict.kind), done.is_good) == (kind, passed)
    assert stage.made == [UNDISTURBED, INTERRUPTED, *([AGAIN] if third else [])]
    assert [planned.kind for planned in stage.plan] == [CRASH]
    found = as_json(done)
    assert found["passed"] is passed
    assert [(one["kind"], one["lostSteps"]) for one in found["interruptions"]] == [("crash", 2)]


# Breaks if a rehearsal passes although an interruption was left out.
def test_an_interruption_that_was_not_tried(tmp_path: Path) -> None:
    stage = Stage(tmp_path, undisturbed=SAME, interrupted=SAME)
    stage.not_tried = {CRASH: "no save began"}
    done = carry_out(Asked((CRASH,)), stage)
    assert not done.is_good
    assert as_json(done)["notTried"] == {"crash": "no save began"}


# Breaks if more runs are made of a program that cannot be rehearsed.
@pytest.mark.parametrize(
    ("how", "words"), [({"code": 3}, "exit code 3"), ({"saves": 1}, "1 save was committed"), ({"saves": 0}, "0 saves")]
)
def test_a_program_that_cannot_be_rehearsed(tmp_path: Path, how: dict[str, int], words: str) -> None:
    stage = Stage(tmp_path, saves=how.get("saves", 4), code=how.get("code", 0), undisturbed=SAME)
    with pytest.raises(CliError, match=words):
        carry_out(Asked((CRASH,)), stage)
    assert stage.made == [UNDISTURBED]
