"""What is said of a folder and of its commits."""

from dataclasses import replace
from pathlib import Path

from holdfast_train.folder import words
from holdfast_train.folder.index import Chunk, Index, Saved
from holdfast_train.folder.look import File
from holdfast_train.format.manifest import Part


def test_a_commit() -> None:
    """Breaks if a save without a step is called none, or if it is not said where a step comes from."""
    file = File("run/last.pt", 3 << 20, 0, 0o644)
    known = Index({file.path: Saved(file, (0,))}, (Chunk("a" * 64, 0, 0, 3 << 20),), (Part("data/1", 3 << 20, 1, ()),))
    assert words.commit(known) == "1 files, 3.0 MiB; none of its files is known as a save to resume from"
    known = replace(known, newest="run/last.pt")
    assert words.commit(known).endswith("; the newest save is run/last.pt, and nothing says its step")
    known = replace(known, step=7, step_from="its name says it")
    assert words.commit(known).endswith("; the newest save is run/last.pt, of step 7: its name says it")


def test_many_paths_are_one_short_line() -> None:
    """Breaks if a folder with thousands of odd files fills the log."""
    assert words.paths({"a": "a pipe", "b c": "a cache"}) == "'a' (a pipe), 'b c' (a cache)"
    many = words.paths({f"f{number}": "a pipe" for number in range(1000)})
    assert many.startswith("'f0' (a pipe), 'f1' (a pipe), ")
    assert many.endswith("'f9' (a pipe), and 990 more")


def test_the_largest_folders() -> None:
    files = [File("a/x", 1 << 20, 0, 0), File("b/c/x", 3 << 20, 0, 0), File("b/y", 1 << 19, 0, 0), File("z", 1, 0, 0)]
    assert words.largest({file.path: file for file in files}) == "'b' (3.5 MiB), 'a' (1.0 MiB), 'z' (0.0 MiB)"


def test_the_end() -> None:
    """Breaks if what is saved is called nothing because it says no step, or if nothing is called a save."""
    assert words.newest(None, is_there=False) == "this attempt has saved nothing"
    assert words.newest(None, is_there=True) == "the folder is saved; nothing says the step"
    assert words.newest(7, is_there=True) == "saved step: 7"
    assert "no save of it was ever committed" in words.nothing_saved(Path("/outputs"))
    assert "/outputs" in words.nothing_saved(Path("/outputs"))
    assert words.saved_on_notice(None).startswith("notice to leave: what the program saved then is")
    assert "of step 7" in words.saved_on_notice(7)
    assert words.left(None, is_there=False).endswith("this attempt has saved nothing before")
    assert words.left(None, is_there=True).endswith("the newest of this attempt says no step")
    assert words.left(7, is_there=True).endswith("the newest of this attempt is that of step 7")
