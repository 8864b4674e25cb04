"""Ignore files are read as git reads them."""

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.trainer.code import write_tree

from holdfast_cli.code.ignore import IgnoreFile
from holdfast_cli.code.walk import Walk

NAMES = ["a", "b", "ab", "a.b", "c d", "#x", "!y", "[z"]
name = st.sampled_from(NAMES)
path = st.lists(name, min_size=1, max_size=3).map("/".join)
piece = st.sampled_from([*NAMES[:-1], "*", "**", "a*", "*.b", "?", "[ab]", "[!a]", "\\#x", "\\!y", "\\[z", "c\\ d"])
pattern = st.builds(
    lambda no, first, parts, last: f"{no}{first}{'/'.join(parts)}{last}",
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(piece, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", "/**", "  "]),
)
patterns = st.lists(pattern | st.sampled_from(["", "# a", "*", "!*/", "!a"]), max_size=4)


# Breaks if a pattern means something else than for git: files are missing in the pod, or are sent that must not be.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.lists(path, max_size=10, unique=True), st.dictionaries(st.sampled_from(["", "a/", "b/a/"]), patterns), patterns
)
def test_as_git(paths: list[str], ignored: dict[str, list[str]], exclude: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        git = ["git", "-c", "init.defaultBranch=main", "-C", place]
        subprocess.run([*git, "init", "-q", "--template="], check=True)
        for one in paths:
            if not any(other != one and (f"{other}/".startswith(f"{one}/")) for other in paths):
                write_tree(root, {one: ""})
        for base, lines in ignored.items():
            if (root / base).is_dir() or not any((root / up).is_file() for up in ("a", "b", "b/a")):
                write_tree(root, {f"{base}.gitignore": "\n".join(lines)})
        write_tree(root / ".git" / "info", {"exclude": "\n".join(exclude)})
        listed = subprocess.run([*git, "ls-files", "-oz", "--exclude-standard"], check=True, capture_output=True).stdout
        found = Walk(root).run()
        assert sorted(file.path for file in found.files) == sorted(filter(None, listed.decode().split("\0")))


def verdict(lines: list[str], path: str, *, is_folder: bool = False) -> bool | None:
    return IgnoreFile(lines, "", "test").takes_in(path, path.rpartition("/")[2], is_folder=is_folder)


# Breaks if a pattern for a folder also stands for what is in it: `!data/` would take in the secrets in data.
def test_a_pattern_is_for_the_path_alone() -> None:
    assert verdict(["!data/"], "data", is_folder=True) is True
    assert verdict(["!data/"], "data/.env") is None
    assert verdict(["data"], "data/x") is None
    assert verdict(["data/**"], "data/x/y") is False
    assert verdict(["*", "!*.py"], "x/a.py") is True
    assert verdict(["**", "!/a.py"], "x/a.py") is False


# Breaks if a whole environment is read for a pattern of a name, or a file below a folder cannot be taken in.
@pytest.mark.parametrize(
    ("line", "folder", "below"),
    [
        ("!data/words.txt", "data", True),
        ("!/data/x/*.txt", "data/x", True),
        ("!data/x/*.txt", "data/y", False),
        ("!d*/**/w", "data/x/y", True),
        ("!d*/x/w", "data/x/y", False),
        ("!words.txt", "data", False),
        ("!**/words.txt", "data", False),
        ("data/words.txt", "data", False),
    ],
)
def test_what_may_be_taken_in_below_a_folder(line: str, folder: str, below: bool) -> None:
    assert IgnoreFile([line], "", "test").takes_in_below(folder) is below


# Breaks if an invalid line ends in a traceback.
@pytest.mark.parametrize("line", ["[z-a]", "a[z-a]b"])
def test_lines_that_are_not_patterns(line: str) -> None:
    with pytest.raises(ValueError, match=r"here, line 2: .* is not a pattern"):
        IgnoreFile(["a", line], "", "here")
