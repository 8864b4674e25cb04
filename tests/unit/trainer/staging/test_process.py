"""The data of a pod as a whole; tests/unit/trainer/pod/launcher/staging has the process under its launcher."""

import re
from pathlib import Path

import pytest
from tests.support.http.progress_endpoint import Endpoint
from tests.support.staging.datasets import FILES, Store, content, wanted
from tests.support.trainer.stores import environment

from holdfast_protocol.settings import Data
from holdfast_train.errors import DataInvalidError, DataTooLargeError, HoldfastTrainError, StorageUnreachableError
from holdfast_train.staging.folder import DataFolder
from holdfast_train.staging.process import stage


def requests(folder: Path, *names: str) -> tuple[Data, ...]:
    """Each of the buckets into a folder of its name."""
    entries = [{"from": f"file://{folder}/{name}", "to": f"{folder}/data/{name}", "mount": str(folder)}
               for name in names]  # fmt: skip
    return wanted(*entries)


def test_two_kinds_of_data_with_one_report(tmp_path: Path, endpoint: Endpoint) -> None:
    Store(tmp_path / "one"), Store(tmp_path / "two", {"x": b"12"})
    counts = stage(requests(tmp_path, "one", "two"), environment(None, **endpoint.variables))
    assert content(tmp_path / "data/one") == FILES
    assert content(tmp_path / "data/two") == {"x": b"12"}
    assert endpoint.reports[-1]["staging"] == {"bytes": counts.total, "total": counts.total, "over": True}


# Breaks if an error does not say which data it is about, or data is fetched although other data cannot be.
def test_an_error_names_the_data(tmp_path: Path) -> None:
    Store(tmp_path / "one")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataInvalidError, match=re.escape(f"trainer.data (from file://{tmp_path}/empty to {tmp_path}")):
        stage(requests(tmp_path, "one", "empty"), None)
    assert content(tmp_path / "data") == {}


def test_data_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(tmp_path / "one")
    monkeypatch.setattr(DataFolder, "free", property(lambda self: (1, 1000)))
    with pytest.raises(DataTooLargeError, match="1000 bytes are free"):
        stage(requests(tmp_path, "one"), None)


# Breaks if a store that is away for a moment ends the attempt, or one that stays away never does.
def test_a_store_that_does_not_answer_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "one")
    troubles = [StorageUnreachableError("away")] * 3

    def away(key: str) -> None:
        if troubles:
            raise troubles.pop()

    store.before = away
    monkeypatch.setattr("holdfast_train.staging.process.open_storage", lambda uri, _: store)
    stage(requests(tmp_path, "one"), None)
    assert content(tmp_path / "data/one") == FILES
    store.add("more", b"more")
    troubles += [StorageUnreachableError("away")] * 100
    with pytest.raises(HoldfastTrainError, match="away") as caught:
        stage(requests(tmp_path, "one"), None, patience=0)
    assert (caught.value.reason, caught.value.outcome) == ("StorageUnreachable", "failed")
