"""The verdict has the words of a process that failed, and not of the program that only started it."""

import pytest

from holdfast_train.pod.launcher.failed_process import last_word
from holdfast_train.pod.launcher.torchrun_report import last_lines

OWN = ["Traceback (most recent call last):", '  File "train.py", line 8, in <module>', "ValueError: this batch is bad"]
HOW_LONG = "…" + "x" * 90  # the middle of a long line is left out


def checked(how: str, file: str = "all.py") -> list[str]:
    """What a program prints last that started a command with `check=True`, as `accelerate launch` does."""
    first = ["Traceback (most recent call last):", f'  File "{file}", line 999, in simple_launcher']
    return [*first, f"subprocess.CalledProcessError: Command '['python', 'train.py', {HOW_LONG}']' {how}."]


# Breaks if the command hides why it failed, or its exit code does not reach the rules of the user.
@pytest.mark.parametrize(
    ("errors", "kept"),
    [
        ([*OWN, *checked("returned non-zero exit status 42")], (*OWN, "42")),
        ([*OWN, *checked("died with <Signals.SIGKILL: 9>")], (*OWN, "-9")),
        (
            [*OWN, *checked("returned non-zero exit status 42"), *checked("returned non-zero exit status 1")],
            (*OWN, "42"),
        ),
        (["no", *checked("returned non-zero exit status 42", "accelerate/commands/launch.py")], ("no", "42")),
        (checked("returned non-zero exit status 3", "accelerate/commands/launch.py"), ("the output", "3")),
        # A script that ends with the upload of its results: only its own traceback says which command failed.
        (checked("returned non-zero exit status 3"), (*checked("returned non-zero exit status 3"), "3")),
        (
            [*OWN, "done", *checked("died with <Signals.SIGKILL: 9>")],
            (*OWN, "done", *checked("died with <Signals.SIGKILL: 9>"), "-9"),
        ),
    ],
)
def test_a_command_that_failed(errors: list[str], kept: tuple[str, ...]) -> None:
    *lines, code = kept
    assert last_lines(errors, ["the output"]) == (*lines, f"Root Cause: a process that it started, exitcode: {code}")


@pytest.mark.parametrize(("how", "code"), [("exit code 42", 42), ("signal SIGSEGV", -11)])
def test_a_process_of_torch_multiprocessing(how: str, code: int) -> None:
    last = f"torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with {how}"
    assert last_lines(["a warning", last], []) == ("a warning", last, f"Root Cause: process 1, exitcode: {code}")


def test_how_a_process_is_taken_down_is_not_its_last_word() -> None:
    assert last_word(["ValueError: no", "terminate called without an active exception"]) == "ValueError: no"
    log = "I1128 17:12:45.308000 28471 torch/_subclasses/fake_tensor.py:3810] cache_misses: 0"
    assert last_word(["RuntimeError: no", log]) == "RuntimeError: no"
    assert last_word(["  warnings.warn('"]) == "warnings.warn('", "if there is nothing else"
