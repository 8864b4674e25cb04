"""The moment of a commit: courses of a folder, with looks every two seconds of a clock of the test."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.support.trainer.folders import archive

from holdfast_train.folder.look import look
from holdfast_train.folder.moment import Due, Moment

MIB = 1 << 20
SECONDS = 2  # between two looks


def zip_of(size: int) -> bytes:
    """What torch.save writes."""
    path = io.BytesIO()
    np.savez(path, weights=np.zeros(size // 8))
    return path.getvalue()


class Course:
    """A folder, in which a program does something at some seconds, and is seen between them."""

    def __init__(self, root: Path) -> None:
        self.root, self.now, self.writes = root, 0.0, 0
        self.changed: list[str] = []
        self.moment = Moment(root, self.changed.append, lambda: self.now)

    def begin(self, *committed: str) -> None:
        files = look(self.root).files
        self.moment.begin(files, {path: files[path] for path in committed})

    def write(self, path: str, data: bytes = b"text") -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)
        self.writes += 1  # each write has a time of its own, also if the clock of the file system is coarse
        os.utime(self.root / path, ns=(10**18 + self.writes, 10**18 + self.writes))

    def see(self) -> Due | None:
        self.moment.see(look(self.root).files)
        return self.moment.due()

    def commits(self, program: Callable[[int], object], seconds: int) -> dict[int, Due]:
        """The seconds at which the folder is committed, if the program does `program(second)` in odd seconds."""
        found = {}
        for second in range(int(self.now) + 1, seconds + 1):
            self.now = second
            if second % SECONDS:
                program(second)
            elif (due := self.see()) is not None:
                found[second] = due
                self.moment.note_committed(due.files)
        return found


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return Course(tmp_path)


Program = Callable[[Course, int], object]
WHOLE = zip_of(2 * MIB)


def once(at: int, path: str, data: bytes) -> Program:
    return lambda course, second: course.write(path, data) if second == at else None


def several(*programs: Program) -> Program:
    return lambda course, second: [program(course, second) for program in programs]


def growing(path: str, first: int, last: int) -> Program:
    return lambda course, second: course.write(path, b"line\n" * second) if first <= second <= last else None


def torn(path: str, first: int, last: int) -> Program:
    return lambda course, second: course.write(path, WHOLE[:-9]) if first <= second <= last else None


def rename(at: int, old: str, new: str) -> Program:
    return lambda course, second: (course.root / old).rename(course.root / new) if second == at else None


NOISE: Program = lambda course, second: course.write(f"samples/{second}", b"x")  # noqa: E731
STORM: Program = lambda course, second: course.write(f"large/{second}", b"x" * MIB)  # noqa: E731
STATE = json.dumps({"global_step": 1, "log_history": []}).encode()


@pytest.mark.parametrize(
    ("program", "seconds", "commits"),
    [
        (lambda course, second: None, 200, []),
        (once(1, "small", b"text"), 200, [4]),
        (once(1, "whole", WHOLE), 200, [4]),
        (once(1, "unknown", b"x" * MIB), 200, [8]),
        (once(1, "just smaller", b"x" * (MIB - 1)), 200, [4]),
        (several(once(1, "a", b"a"), once(3, "b", b"b"), once(5, "c", b"c"), once(7, "d", WHOLE)), 200, [10]),
        (several(once(1, "a", WHOLE[:-9]), once(13, "a", WHOLE)), 200, [16]),
        (once(1, "a", WHOLE[:-9]), 200, [62]),
        (several(once(1, "a", WHOLE[:-9]), once(9, "b", b"b"), once(71, "a", WHOLE)), 200, [62, 74]),
        (several(once(1, "a.tmp", WHOLE), rename(13, "a.tmp", "a")), 200, [16]),
        (several(once(1, "checkpoint-1/rng_state.pth", WHOLE), once(9, "checkpoint-1/trainer_state.json", STATE)),
         200, [12]),
        (growing("log", 1, 199), 200, [10, 70, 130, 190]),
        (several(growing("log", 1, 199), once(21, "last", WHOLE)), 100, [10, 24, 84]),
        (growing("log", 1, 19), 200, [10, 70]),
        (torn("upload.zip", 1, 99), 200, [160]),
        (several(torn("download.zip", 1, 399), once(21, "last", WHOLE)), 310, [302]),
        (NOISE, 70, [32, 64]),
        (several(NOISE, once(41, "last", WHOLE)), 70, [32, 64]),
        (STORM, 320, [302]),
    ],
    ids=["nothing", "small", "whole", "unknown", "just smaller", "burst", "torn, then whole", "torn for a minute",
         "torn for longer", "temporary name", "marker", "log alone", "log beside a save", "log that stops",
         "slow write", "save beside a download", "noise", "save in noise", "storm"],
)  # fmt: skip
def test_courses(course: Course, program: Program, seconds: int, commits: list[int]) -> None:
    """Breaks if a save is committed before it is whole, much later, or again and again."""
    course.begin()
    assert list(course.commits(lambda second: program(course, second), seconds)) == commits


# Breaks if what is torn is committed without a word, or if a program waits for it for ever.
def test_what_stays_torn_is_named(course: Course) -> None:
    course.begin()
    found = course.commits(lambda second: once(1, "a", WHOLE[:-9])(course, second), 60)
    assert found == {}
    assert course.moment.waits_for == "'a' is not whole, as its format says"
    found = course.commits(lambda second: None, 70)
    assert found[62].torn == {"a": "is not whole, as its format says"}
    assert course.moment.waits_for == ""


def test_noise_is_said(course: Course) -> None:
    course.begin()
    course.commits(lambda second: NOISE(course, second), 20)
    assert course.moment.waits_for == "files change at each look"


# Breaks if one torn file from before stops all commits.
def test_what_was_torn_before_the_start_blocks_nothing(course: Course) -> None:
    course.write("old", WHOLE[:-9])
    course.write("checkpoint-1/rng_state.pth", WHOLE)
    course.write("run/__0_0.distcp", WHOLE)
    course.begin()
    (due,) = course.commits(lambda second: once(3, "new", b"new")(course, second), 4).values()
    assert due.files.keys() == {"old", "checkpoint-1/rng_state.pth", "run/__0_0.distcp"}
    found = course.commits(lambda second: None, 20)
    assert list(found) == [6]
    assert set(found[6].files) == {*due.files, "new"}
    course.write("old", WHOLE[:-8])  # now the program writes it
    assert course.commits(lambda second: None, 70) == {}


def test_a_file_that_is_gone_is_new_too(course: Course) -> None:
    """Breaks if a program finds old saves again that it has deleted."""
    course.write("old", WHOLE)
    course.write("other", b"other")
    course.begin("old", "other")
    found = course.commits(lambda second: (course.root / "old").unlink() if second == 21 else None, 200)
    assert {second: set(due.files) for second, due in found.items()} == {24: {"other"}}


def test_what_was_committed_before_is_not_new(course: Course) -> None:
    course.write("old", WHOLE)
    course.begin("old")
    assert course.commits(lambda second: None, 100) == {}
    assert course.moment.last(clean=True) is None


def test_what_moves_is_told(course: Course) -> None:
    """Breaks if a log is read like a save, which it is never whole for, or a save like a log."""
    course.begin()
    program = several(growing("log", 1, 99), once(21, "last", WHOLE))
    found = course.commits(lambda second: program(course, second), 30)
    assert {second: due.moving for second, due in found.items()} == {10: {"log"}, 24: {"log"}}


# Breaks if the end of a program loses its last save, or commits one that a kill has cut.
def test_the_end(course: Course) -> None:
    course.begin()
    assert course.moment.last(clean=False) is None
    course.write("checkpoint-1/model", WHOLE)
    course.see()
    due = course.moment.last(clean=False)
    assert due is not None
    assert set(due.files) == {"checkpoint-1/model"}
    course.moment.note_committed(due.files)
    assert course.moment.last(clean=False) is None

    course.write("checkpoint-2/model", WHOLE[:-9])
    course.see()
    assert course.moment.last(clean=False) is None  # nothing but what is torn
    course.write("log", b"line\n")
    course.write("checkpoint-2/config", b"text")
    course.see()
    due = course.moment.last(clean=False)
    assert due is not None
    assert set(due.files) == {"checkpoint-1/model", "checkpoint-2/config", "log"}
    assert due.torn == {}
    due = course.moment.last(clean=True)  # the program wants it so
    assert due is not None
    assert set(due.files) == {"checkpoint-1/model", "checkpoint-2/model", "checkpoint-2/config", "log"}

    course.write("checkpoint-1/model", WHOLE[:-9])
    course.see()
    assert course.moment.last(clean=False) is None  # what is committed is better


def test_the_end_of_a_folder_without_its_marker(course: Course) -> None:
    course.write("log", b"line\n")
    course.begin("log")
    archive(course.root / "checkpoint-2/rng_state.pth")
    course.write("log", b"line\nline\n")
    course.write("checkpoint-2/model", WHOLE)
    course.see()
    due = course.moment.last(clean=False)
    assert due is not None
    assert set(due.files) == {"log"}


# Breaks if a save of an unknown format that only becomes longer, as those of CatBoost do, waits a minute like a log,
# although the job names it.
def test_a_named_save_is_no_log(course: Course) -> None:
    course.moment = Moment(course.root, clock=lambda: course.now, is_named=lambda path: path == "snapshot")
    course.begin()

    def program(second: int) -> None:
        if second % 10 == 1:
            growing("snapshot", 1, 99)(course, second)

    assert list(course.commits(program, 40)) == [4, 14, 24, 34]


# Breaks if a folder that is looked at more often counts a save that takes some seconds as a file that changes all the
# time, and commits half of it.
@pytest.mark.parametrize("quiet", [0.1, 0.5, 2.0])
def test_a_short_quiet_and_a_save_of_seconds(tmp_path: Path, quiet: float) -> None:
    now, path = 0.0, tmp_path / "save.bin"
    moment = Moment(tmp_path, clock=lambda: now, quiet=quiet)
    moment.begin({}, {})
    while now < 6:
        now += quiet
        with path.open("ab") as file:
            file.write(b"\x01\x02 a format that is not known" * 100_000)
        moment.see(look(tmp_path).files)
        assert moment.due() is None
    now += 4 * quiet
    moment.see(look(tmp_path).files)
    assert moment.due() is not None
