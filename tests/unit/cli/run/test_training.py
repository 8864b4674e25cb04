"""What a run says before it sends anything."""

from pathlib import Path

import pytest

from holdfast_cli.code.folder import select
from holdfast_cli.run.training import not_sent


# Breaks if a mistyped program costs the start of a pod without a word, or if a word is said of one that is there.
@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["python3", "train.py"], []),
        (["python3", "./parts/../train.py", "--config=none.py"], []),
        (["torchrun", "parts/x.py", "/opt/other.py"], []),
        (["python3", "trian.py"], ["trian.py"]),
        (["python3", "secret/train.py"], ["secret/train.py"]),
        (["python3", "-m", "parts.x"], []),
    ],
)
def test_programs_that_are_not_sent(tmp_path: Path, command: list[str], found: list[str]) -> None:
    for path in ("train.py", "parts/x.py", "secret/train.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / ".gitignore").write_text("secret/")
    assert not_sent(command, select(tmp_path)) == found
