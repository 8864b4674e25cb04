"""Keys in the files of a mounted Secret."""

from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest
from tests.support.trainer.secret_files import SecretFiles

from holdfast_train.environment import Credentials
from holdfast_train.storage import s3_keys
from holdfast_train.storage.s3_keys import KeyFiles

FIRST = Credentials("from", "the environment", "token", folder="anything")
AT_START = Credentials("from", "the environment", "token")


@pytest.fixture
def files(tmp_path: Path) -> SecretFiles:
    return SecretFiles(tmp_path / "keys")


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def keys(files: SecretFiles, said: list[str]) -> KeyFiles:
    return KeyFiles(FIRST, str(files.folder), said.append)


def signed_with(session: Any) -> tuple[str, str, str | None]:
    """The keys with which a client of `session` signs its next request."""
    found = session.get_credentials().get_frozen_credentials()
    return found.access_key, found.secret_key, found.token


def test_keys_of_the_environment_count_until_there_are_files(files: SecretFiles, keys: KeyFiles) -> None:
    """Breaks if a Secret that is created late leaves the pod without keys."""
    assert keys.take() == AT_START
    files.put("a", "b")
    assert keys.take() == Credentials("a", "b")  # the token belongs to the other keys
    files.put("a", "b\n", "c")
    assert keys.take() == Credentials("a", "b", "c")


def test_reading_alone_changes_nothing(files: SecretFiles, keys: KeyFiles) -> None:
    files.put("a", "b")
    assert (keys.read(), keys.newest) == (Credentials("a", "b"), AT_START)


@pytest.mark.parametrize("values", [("a",), ("", "b"), ()])
def test_files_that_are_gone_or_incomplete_change_nothing_and_are_named_once(
    files: SecretFiles, keys: KeyFiles, said: list[str], values: tuple[str, ...]
) -> None:
    """Breaks if a Secret that a person deletes or edits ends the saves of a training whose keys are still valid."""
    files.put("good", "keys")
    keys.take()
    files.put(*values)
    for _ in range(3):
        assert keys.take() == Credentials("good", "keys")
    (line,) = said
    assert f"{files.folder}/AWS_" in line
    assert "the last ones are used" in line
    files.put("new", "keys")
    assert keys.take() == Credentials("new", "keys")


def test_keys_that_change_while_they_are_read_are_never_mixed(
    files: SecretFiles, keys: KeyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.put("old", "old", "old")
    original, reads = s3_keys._text, 0

    def text(path: Path) -> str | None:
        nonlocal reads
        reads += 1
        if reads == 2:
            files.put("new", "new")
        return original(path)

    monkeypatch.setattr(s3_keys, "_text", text)
    assert keys.take() == Credentials("new", "new")


def test_files_that_change_all_the_time_leave_the_last_keys(
    files: SecretFiles, keys: KeyFiles, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps = iter(range(1000))
    monkeypatch.setattr(s3_keys, "_stamp", lambda _: next(stamps))
    files.put("a", "b")
    assert keys.take() == AT_START
    assert "change while they are read" in said[0]


def test_a_session_signs_with_new_keys_after_a_while(
    files: SecretFiles, keys: KeyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if a session of botocore keeps the keys with which it began, or reads the files at every request."""
    files.put("a", "b", "c")
    session = keys.session()
    assert signed_with(session) == ("a", "b", "c")
    files.put("x", "y")
    assert signed_with(session) == ("a", "b", "c")
    monkeypatch.setattr(s3_keys, "REREAD_SECONDS", 0.0)
    session = keys.session()
    assert signed_with(session) == ("x", "y", None)
    files.put("a", "b")
    assert signed_with(session) == ("a", "b", None)
    assert keys.newest == Credentials("a", "b")


def test_a_session_without_keys_has_none_and_half_a_pair_is_named(tmp_path: Path) -> None:
    assert KeyFiles(Credentials(), str(tmp_path), print).session().get_credentials() is None
    with pytest.raises(botocore.exceptions.PartialCredentialsError, match="AWS_SECRET_ACCESS_KEY"):
        KeyFiles(Credentials("a"), str(tmp_path), print).session().get_credentials()
