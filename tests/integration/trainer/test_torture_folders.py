"""Writers and programs of folders on several nodes killed at random moments: a few of the kills of `make torture`."""

from pathlib import Path

import pytest
from tests.torture.folders import Tally, run_folders

SEED, KILLS = 5, 12


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_no_folder_is_mixed_whoever_is_killed_when(tmp_path: Path) -> None:
    """Breaks if nodes go on from different saves, from a half one, or from one that is older than what a writer has
    called committed; or if a file has other bytes than those that its program wrote."""
    tally = Tally()
    run_folders(tmp_path, KILLS, SEED, tally)
    assert tally.kills >= KILLS
    assert tally.programs > 0
    assert tally.compared > 0
    print(tally.line())
