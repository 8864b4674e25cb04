"""The state file is whole, private, and never guessed at."""

import stat
from pathlib import Path

import pytest

from holdfast_local.config import ClusterConfig
from holdfast_local.errors import LocalError, NotUpError
from holdfast_local.processes import ProcessRecord
from holdfast_local.state import ClusterState, S3Access


def state(root: Path) -> ClusterState:
    access = S3Access(endpoint="http://127.0.0.1:2", access_key="a", secret_key="s")
    record = ProcessRecord(name="etcd", argv=["etcd"], env={"A": "1"}, log=root / "log", pid=7, create_time=1.5)
    return ClusterState(
        config=ClusterConfig(root=root), server="https://127.0.0.1:1", ports={"etcd": 1},
        tools={"kubernetes": root / "k"}, s3=access, processes={"etcd": record},
    )  # fmt: skip


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    saved = state(tmp_path)
    saved.save()
    assert ClusterState.load(tmp_path) == saved


def test_the_file_is_readable_by_its_owner_only_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    state(tmp_path).save()
    state(tmp_path).save()
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]
    assert stat.S_IMODE((tmp_path / "cluster.json").stat().st_mode) == 0o600


def test_no_file_means_not_up(tmp_path: Path) -> None:
    with pytest.raises(NotUpError, match="holdfast local up"):
        ClusterState.load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}'])
def test_a_file_that_is_not_understood_is_not_taken_for_no_cluster(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(LocalError, match="cannot be read") as caught:
        ClusterState.load(tmp_path)
    assert not isinstance(caught.value, NotUpError)
