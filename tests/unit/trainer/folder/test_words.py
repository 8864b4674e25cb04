"""What is said of checkpoints whose names say no step."""

from pathlib import Path

from holdfast_train.folder import words


# Breaks if a checkpoint that is saved is called none because its name says no step, or if none is called one.
def test_words() -> None:
    assert [words.of_step(7), words.of_step(None)] == ["(step 7)", "(its name says no step)"]
    assert words.newest(None, is_there=False) == "this attempt has saved no checkpoint"
    assert words.newest(None, is_there=True) == "the newest checkpoint is saved; its name says no step"
    assert words.newest(7, is_there=True) == "saved step: 7"
    assert "no save of it was ever committed" in words.nothing_saved(Path("/outputs"))
    assert words.saved_on_notice(None).startswith("notice to leave: a checkpoint, which the program wrote then")
    assert "of step 7" in words.saved_on_notice(7)
    assert words.left(None, is_there=False).endswith("this attempt has saved none before")
    assert words.left(None, is_there=True).endswith("the newest of this attempt has no step in its name")
    assert words.left(7, is_there=True).endswith("the newest of this attempt is that of step 7")
