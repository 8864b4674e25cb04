"""What speaks against a good verdict."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast_cli.rehearse.commits import Made
from holdfast_cli.rehearse.compare.outcome import Outcome
from holdfast_cli.rehearse.compare.verdict import Verdict
from holdfast_cli.rehearse.doubts import Beginning, beginning_of, with_doubts
from holdfast_cli.rehearse.left import Interruption, Left, Start
from holdfast_cli.rehearse.outside import NotSaved
from holdfast_cli.rehearse.ran import Ran
from holdfast_train.storage.folder import FolderStorage

ON, EARLIER, UNKNOWN = Beginning


def made(contents: str, attempts: str = "") -> list[Made]:
    """Commits whose files have these contents, a letter each, made by these attempts."""
    commits = contents.split(" ") if " " in contents else contents
    pairs = zip(commits, attempts or "1" * len(commits), strict=True)
    return [
        Made(seq, int(attempt), None, "save", is_new=True, uploaded=1, contents=frozenset(letters))
        for seq, (letters, attempt) in enumerate(pairs, 1)
    ]


def start(number: int, resumed: int | None = None, first: int | None = None, *, is_last: bool = False) -> Start:
    ended = None if is_last else Interruption.CRASH
    return Start(number, ended, 0 if is_last else None, resumed, number > 1, first, None, 9.0, None)


# Breaks if a program that does not resume is taken for one that does, or the other way round.
@pytest.mark.parametrize(
    ("resumed", "first", "every", "undisturbed", "interrupted", "began"),
    [
        (20, 21, 1, "", "", ON),
        (20, 20, 1, "", "", ON),
        (20, 30, 10, "", "", ON),
        (23, 30, 10, "", "", ON),
        (20, 40, 10, "", "", ON),
        (20, 10, 10, "", "", EARLIER),
        (20, 1, 1, "", "", EARLIER),
        (20, 11, 1, "", "", EARLIER),
        (None, 1, 1, "", "", EARLIER),
        (None, 7, 1, "", "", ON),
        (20, 25, None, "", "", ON),
        (20, 20, None, "", "", ON),
        (20, 5, None, "", "", EARLIER),
        (20, None, 1, "abcd", "abcd", ON),
        (20, None, None, "abcd", "abbc", EARLIER),
        (20, None, None, "abcd", "abab", EARLIER),
        (20, None, None, "abcd", "abxd", UNKNOWN),
        (20, None, None, "abcd", "axcd", UNKNOWN),
        (20, None, None, "aaaa", "aaaa", UNKNOWN),
        (20, None, None, "ab", "a  b c", UNKNOWN),
        (20, None, None, "a b  ", "a b  ", UNKNOWN),
        (20, None, None, "a bc d e", "a b c d", ON),
        (20, None, None, "a bc d e", "a bc d e", ON),
        (20, None, None, "a bc d e", "ab c d e", ON),
        (20, None, None, "a bc d e", "a b b d", EARLIER),
        (20, None, None, "a bc d e", "a bc ab d", EARLIER),
        (20, None, None, "an bn cn d", "an bn cn d", ON),
        (20, None, None, "an bn cn d", "an bn an b", EARLIER),
        (20, None, None, "al bm cn d", "ax by cz d", ON),
        (20, None, None, "", "", UNKNOWN),
    ],
)
def test_where_a_start_began(
    resumed: int | None, first: int | None, every: int | None, *, undisturbed: str, interrupted: str, began: Beginning
) -> None:
    attempts = "1122" if interrupted else ""
    found = beginning_of(start(2, resumed, first), every, made(undisturbed), made(interrupted, attempts))
    assert found is began


def ran(starts: Sequence[Start], contents: str, attempts: str = "", outside: tuple[str, ...] = ()) -> Ran:
    left = Left("run", FolderStorage("/nowhere/job"), (Path("/nowhere"),), {}, tuple(starts))
    return Ran(left, [], made(contents, attempts), not_saved=NotSaved({}, outside))


# Breaks if a rehearsal passes although it has not shown what it says, or if a doubt hides a worse verdict.
@pytest.mark.parametrize(
    ("kind", "interrupted", "outside", "ignore", "found", "words"),
    [
        ("exact", "abcd", (), (), "exact", "as it was"),
        ("within-tolerance", "abcd", (), (), "within-tolerance", "as it was"),
        ("exact", "abab", (), (), "failed", "trained again what was in it"),
        ("differs", "abab", (), (), "failed", "trained again what was in it"),
        ("exact", "abxy", (), (), "not-proved", "--progress"),
        ("differs", "abxy", (), (), "differs", "as it was"),
        ("failed", "abab", (), (), "failed", "as it was"),
        ("exact", "abcd", ("best.pt",), (), "not-proved", "best.pt outside of its folder"),
        ("exact", "abcd", ("logs/best.pt",), ("logs",), "exact", "as it was"),
        ("differs", "abcd", ("best.pt",), (), "differs", "as it was"),
        ("exact", "abcd", ("a", "b", "c", "d", "e"), (), "not-proved", "a, b, c and 2 more"),
    ],
)
def test_the_verdict(
    kind: str, interrupted: str, outside: tuple[str, ...], *, ignore: tuple[str, ...], found: str, words: str
) -> None:
    before = Verdict(Outcome(kind), "as it was", (), (), (), (), ())
    starts = [start(1), start(2, is_last=True)]
    after = with_doubts(before, ran(starts[1:], "abcd", outside=outside), ran(starts, interrupted, "1122"), ignore)
    assert (str(after.kind), words in after.headline) == (found, True)
    assert after is before or after.reasons == ("as it was",)
