"""Frozen parameters that several checkpoints use: each command counts, checks and keeps them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.trainer.adapted import Training

from holdfast_cli.checkpoints.compare import compare
from holdfast_cli.checkpoints.diff_command import differing
from holdfast_cli.checkpoints.manifests import read_manifest
from holdfast_cli.checkpoints.pick import Selected
from holdfast_cli.checkpoints.prune_command import carry_out
from holdfast_cli.checkpoints.prune_plan import plan
from holdfast_cli.checkpoints.survey import Standing, rows, survey
from holdfast_cli.checkpoints.verify_command import verify_all
from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.folder import FolderStorage


@pytest.fixture
def storage(tmp_path: Path) -> FolderStorage:
    """The steps 1 to 4 of an attempt that has handed over. Before step 3 the frozen parameters have changed."""
    training = Training(tmp_path / "prefix", keep=Keep(9))
    for step in range(1, 5):
        if step == 3:
            training.model.base.bias.data.add_(1)
            assert isinstance(training.save(step), HoldfastTrainError), "the save that notices a change is given up"
        assert isinstance(training.save(step), Saved)
    log = CommitLog(training.storage, training.where.identity)
    log.refresh()
    log.fence = log.state.fence
    log.hand_over()
    training.saver.close()
    return training.storage


def shared(storage: FolderStorage) -> list[CheckpointName]:
    """The names of the shared data, of step 1 and of step 3."""
    return sorted(survey(storage).state.shared_names)


def test_a_listing_shows_checkpoints_and_not_their_shared_data(storage: FolderStorage) -> None:
    listed = rows(survey(storage), frozenset())
    assert [(row.name.step, row.standing, row.note) for row in listed] == [
        (step, Standing.OK, "") for step in (4, 3, 2, 1)
    ]
    assert survey(storage).unnamed == ()


def test_a_listing_shows_that_shared_data_is_missing(storage: FolderStorage) -> None:
    first, _ = shared(storage)
    storage.delete(storage.keys(first.data_prefix))
    listed = rows(survey(storage), frozenset())
    assert [row.standing for row in listed] == [Standing.OK, Standing.OK, Standing.DAMAGED, Standing.DAMAGED]
    assert str(first) in listed[-1].note


def test_verify_reads_shared_data(storage: FolderStorage, tmp_path: Path) -> None:
    state = survey(storage).state
    chosen = [Selected(commit.name, commit) for commit in state.commits]
    assert [verdict.damages for verdict in verify_all(storage, chosen)] == [()] * 4
    (key,) = storage.keys(shared(storage)[1].data_prefix)
    file = tmp_path / "prefix" / key
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    found = verify_all(storage, chosen)
    assert [[damage.key for damage in verdict.damages] for verdict in found] == [[], [], [key], [key]]


def test_diff_compares_shared_data(storage: FolderStorage) -> None:
    state = survey(storage).state
    one, two, three = (read_manifest(storage, Selected(c.name, c)) for c in state.commits[:3])
    assert differing(storage, one, two, compare(one, two).common) == ["model/adapter.weight"]
    assert sorted(differing(storage, two, three, compare(two, three).common)) == [
        "model/adapter.weight",
        "model/base.bias",
    ]


@pytest.mark.parametrize(("last", "kept"), [(1, 1), (2, 1), (3, 2), (4, 2)])
def test_prune_deletes_shared_data_with_the_last_checkpoint_that_uses_it(
    storage: FolderStorage, last: int, kept: int
) -> None:
    prefix, names = survey(storage), shared(storage)
    made = plan(prefix, Keep(last=last), {}, timedelta(days=1), datetime.now(UTC))
    assert made.size == sum(
        there.size for name, there in prefix.objects.items() if name in {item.name for item in made.items}
    )
    carry_out(storage, prefix.state, made)
    left = {CheckpointName.of_key(key) for key in storage.keys("data/")}
    assert [name for name in names if name in left] == names[-kept:]
    state = survey(storage).state
    assert [commit.step for commit in state.commits] == list(range(1, 5))[-last:]
    chosen = [Selected(commit.name, commit) for commit in state.commits]
    assert [verdict.damages for verdict in verify_all(storage, chosen)] == [()] * last
