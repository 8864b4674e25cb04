"""The limits of sizes: what is over them is named."""

from pathlib import Path

import pytest
from scripts.limits import ROOT, too_large


def write(root: Path, name: str, text: str) -> None:
    path = root / "operator" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("lines", "found"), [(400, []), (401, ["operator/a.py has 401 lines; at most 400 are allowed"])]
)
def test_files(tmp_path: Path, lines: int, found: list[str]) -> None:
    write(tmp_path, "a.py", "x = 1\n" * lines)
    assert list(too_large(tmp_path)) == found


@pytest.mark.parametrize(
    ("lines", "found"), [(59, []), (60, ["operator/a.py:2 f has 61 lines; at most 60 are allowed"])]
)
def test_functions(tmp_path: Path, lines: int, found: list[str]) -> None:
    write(tmp_path, "a.py", "class A:\n    async def f():\n" + "        x = 1\n" * lines)
    assert list(too_large(tmp_path)) == found


def test_folders(tmp_path: Path) -> None:
    for number in range(21):
        write(tmp_path, f"b/m{number}.py", "")
        write(tmp_path, f"c/m{number % 20}.py", "")
    write(tmp_path, "c/__init__.py", "")
    assert list(too_large(tmp_path)) == ["operator/b has 21 modules; at most 20 are allowed"]


def test_the_house_is_within_its_limits() -> None:
    assert list(too_large(ROOT)) == []
