"""What MODULE:FUNCTION may be, and what happens when it fails."""

import sys
from pathlib import Path

import pytest

from holdfast_model.commands.user_function import user_function, user_problem
from holdfast_train.errors import StateError


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with programs, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("of_user", "needs_more", "wrong"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


# Breaks if a place that is no function ends with a traceback of importlib.
@pytest.mark.parametrize("place", ["train", ":f", "train:", "..a:b", ".a:b", "/etc/passwd:f", "a b:c", "train:a.b"])
def test_what_is_not_a_function(program: Path, place: str) -> None:
    with pytest.raises(StateError, match=r"is not a function; allowed: MODULE:FUNCTION, as train:problem"):
        user_function("--problem", place)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("none_such:f", "there is no module 'none_such' here or on PYTHONPATH"),
        ("of_user:none", "the module has no function 'none'"),
        ("needs_more:f", r"needs_more\.py, line 1, in <module> \(import timmm\): ModuleNotFoundError: No module named"),
        ("wrong:f", r"the import of wrong raised an error: .*SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported(program: Path, place: str, said: str) -> None:
    (program / "of_user.py").write_text("")
    (program / "needs_more.py").write_text("import timmm\n")
    (program / "wrong.py").write_text("def f(:\n")
    with pytest.raises(StateError, match=said):
        user_function("--problem", place)


# Breaks if the user's error is a traceback, or is told without its line.
def test_a_function_that_fails(program: Path) -> None:
    (program / "of_user.py").write_text("def problem(place):\n    return open(place)\n")
    with pytest.raises(StateError, match=r"of_user\.py, line 2, in problem \(return open\(place\)\): FileNotFound"):
        user_problem("of_user:problem", ["none.npz"])
    with pytest.raises(StateError, match="missing 1 required positional argument: 'place'"):
        user_problem("of_user:problem", [])
