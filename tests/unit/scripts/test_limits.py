"""The limits of sizes: what is over them is named."""

from pathlib import Path

import pytest
from scripts.limits import EXCEPTIONS, ROOT, Large, judge, too_large


def write(root: Path, name: str, text: str) -> None:
    path = root / "operator" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(("lines", "found"), [(400, []), (401, ["operator/a.py has 401 lines; usual are at most 400"])])
def test_files(tmp_path: Path, lines: int, found: list[str]) -> None:
    write(tmp_path, "a.py", "x = 1\n" * lines)
    assert [one.words for one in too_large(tmp_path)] == found


@pytest.mark.parametrize(("lines", "found"), [(59, []), (60, ["operator/a.py:2 f has 61 lines; usual are at most 60"])])
def test_functions(tmp_path: Path, lines: int, found: list[str]) -> None:
    write(tmp_path, "a.py", "class A:\n    async def f():\n" + "        x = 1\n" * lines)
    assert [one.words for one in too_large(tmp_path)] == found


def test_folders(tmp_path: Path) -> None:
    for number in range(21):
        write(tmp_path, f"b/m{number}.py", "")
        write(tmp_path, f"c/m{number % 20}.py", "")
    write(tmp_path, "c/__init__.py", "")
    assert [one.words for one in too_large(tmp_path)] == ["operator/b has 21 modules; usual are at most 20"]


def test_a_named_exception_is_not_warned_of_and_has_to_be_needed() -> None:
    found = [Large("a.py", "a.py is large"), Large("b.py:f", "b.py:3 f is large")]
    assert judge(found, {}) == (["a.py is large", "b.py:3 f is large"], [])
    assert judge(found, {"b.py:f": "a table"}) == (["a.py is large"], [])
    assert judge([], {"a.py": "a table"}) == ([], ["a.py is within the limits: remove it from EXCEPTIONS"])


def test_every_exception_of_the_house_is_needed() -> None:
    assert judge(too_large(ROOT), EXCEPTIONS)[1] == []
