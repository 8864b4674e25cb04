"""Errors that a writer sends to its trainer."""

import pytest

from holdfast_train.errors import AlreadyCompleteError, FencedError, HoldfastTrainError, StorageError, StorageFullError
from holdfast_train.save.messages import Failed


@pytest.mark.parametrize("error", [StorageFullError("no space"), FencedError("attempt 2 has started")])
def test_an_error_keeps_its_class_and_text(error: HoldfastTrainError) -> None:
    found = Failed.of(3, error).to_error()
    assert (type(found), str(found)) == (type(error), str(error))


def test_an_error_of_another_class_is_a_storage_error() -> None:
    assert type(Failed(3, "NoSuchError", "text").to_error()) is StorageError
    assert type(Failed.of(3, AlreadyCompleteError(3)).to_error()) is StorageError
