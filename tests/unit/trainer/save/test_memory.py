"""How much memory is left, according to the files of control groups."""

from pathlib import Path

import pytest

from holdfast_train.save import memory

G = 1 << 30


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 500 GiB left, and a process in the group `pod/trainer`."""
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    monkeypatch.setattr(memory, "_own_group", lambda: "pod/trainer")
    monkeypatch.setattr(memory, "_machine", lambda: 500 * G)
    (tmp_path / "pod/trainer").mkdir(parents=True)
    return tmp_path


def group(folder: Path, limit: str, used: int, **stat: int) -> None:
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text("".join(f"{name} {size}\n" for name, size in stat.items()))


def test_the_page_cache_counts_as_free(groups: Path) -> None:
    """Breaks if a trainer that reads data from files seems to be near its limit, and runs one save at a time."""
    sizes = {"anon": 6 * G, "file": 57 * G, "shmem": 4 * G, "inactive_file": 33 * G, "active_file": 20 * G}
    group(groups / "pod/trainer", str(64 * G), 63 * G, **sizes)
    assert memory.available() == 54 * G  # arenas are shared memory: those 4 GiB are not free
    assert memory.fits(53 * G)
    assert not memory.fits(53 * G + 1)  # the last GiB stays free for the program


def test_the_lowest_limit_counts(groups: Path) -> None:
    group(groups / "pod/trainer", "max", 63 * G)
    assert memory.available() == 500 * G
    group(groups / "pod", str(64 * G), 63 * G)
    assert memory.available() == G
    group(groups / "pod", str(64 * G), 65 * G)
    assert memory.available() == 0


def test_a_group_without_statistics_has_no_cache(groups: Path) -> None:
    group(groups / "pod/trainer", str(64 * G), 63 * G)
    (groups / "pod/trainer/memory.stat").unlink()
    assert memory.available() == G
