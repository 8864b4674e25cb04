"""How much memory is left, according to the files of control groups, and how much a save of all ranks needs."""

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.trainer.save.test_saver import Gate, Training

from holdfast_train import memory
from holdfast_train.save.saver import Saver

G = 1 << 30


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 500 GiB left, and a process in the group `pod/trainer`."""
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    monkeypatch.setattr(memory, "_own_group", lambda _: "pod/trainer")
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


def test_version_1_of_control_groups(groups: Path) -> None:
    """Breaks if a node with version 1 seems to have no limit: then the kernel kills the trainer at a save."""
    own = groups / "memory/pod/trainer"
    own.mkdir(parents=True)
    (own / "memory.limit_in_bytes").write_text(f"{64 * G}\n")
    (own / "memory.usage_in_bytes").write_text(f"{63 * G}\n")
    (own / "memory.stat").write_text(f"inactive_file {G}\ntotal_inactive_file {30 * G}\ntotal_active_file {3 * G}\n")
    (groups / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")  # none
    (groups / "memory" / "memory.usage_in_bytes").write_text(f"{300 * G}\n")
    assert memory.available() == 34 * G
    assert memory.shortage(40 * G, memory.available()).endswith("set trainer.resources.memory to 71Gi or more")


def test_a_copy_that_fits_is_not_a_shortage(groups: Path) -> None:
    group(groups / "pod/trainer", str(16 * G), 4 * G)
    assert memory.shortage(11 * G, 12 * G) == memory.shortage(0, 12 * G) == ""
    group(groups / "pod/trainer", str(G // 2), G // 4)
    assert memory.shortage(1 << 20, G // 4) == "", "a small program needs no spare gigabyte"


def test_a_copy_that_does_not_fit(groups: Path) -> None:
    group(groups / "pod/trainer", str(16 * G), 4 * G)
    assert memory.shortage(20 * G, 12 * G) == (
        "a save copies the state: 20.0Gi of memory, of which 12.0Gi are left below the limit of 16.0Gi; the trainer "
        "may be killed while it saves: set trainer.resources.memory to 25Gi or more"
    )
    assert memory.shortage(int(11.5 * G), 12 * G), "the program needs some memory too"


def test_a_machine_without_a_limit(groups: Path) -> None:
    group(groups / "pod/trainer", "max", 4 * G)
    assert memory.shortage(20 * G, 12 * G).endswith(
        "12.0Gi are left on this machine; the trainer may be killed while it saves"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0::/pod/trainer\n", ("pod/trainer", "")),
        ("12:cpu,memory:/pod/one\n3:pids:/other\n", ("", "pod/one")),
        ("4:memory:/a:b\n0::/c\n", ("c", "a:b")),
    ],
)
def test_the_group_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, found: object) -> None:
    (tmp_path / "cgroup").write_text(text)
    monkeypatch.setattr(memory, "Path", lambda _: tmp_path / "cgroup")
    assert (memory._own_group(""), memory._own_group("memory")) == found


def test_a_group_without_statistics_has_no_cache(groups: Path) -> None:
    group(groups / "pod/trainer", str(64 * G), 63 * G)
    (groups / "pod/trainer/memory.stat").unlink()
    assert memory.available() == G


class Room:
    """So much memory is left; a save of a rank takes 0.4 MB."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
        monkeypatch.setattr(memory, "_machine", lambda: free)
        monkeypatch.setattr(memory, "_groups", lambda: iter(()))


@pytest.mark.parametrize(("ranks", "short"), [(1, False), (8, True)])
def test_memory_is_needed_for_the_copies_of_all_ranks_of_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, short: bool
) -> None:
    """Breaks if each rank finds room for its own copy, and all together get the pod killed."""
    Room(monkeypatch, (1 << 30) + 1_000_000)
    training = Training(tmp_path)
    training.saver._arenas.copies = ranks
    training.saver.prepare()
    assert bool(training.saver.shortage) is short
    assert training.saver.can_begin, "the first copy is made in any case"
    with contextlib.ExitStack() as stack:
        stack.callback(training.saver.close)
        gate = Gate(monkeypatch)
        training.begin(1)
        assert training.saver.can_begin is not short, "a second copy only if all ranks have room"
        gate.open.set()
        assert training.saver.wait(lambda: 30)
        assert not training.saver.shortage, "a save that succeeded had the memory"


def test_the_ranks_of_a_pod_share_its_memory(tmp_path: Path) -> None:
    training = Training(tmp_path)
    opened = replace(training.saver._open, ranks=16, environment=replace(training.saver._open.environment, nodes=2))
    other = Saver(opened, training.saver._state, lambda *_: None)
    assert (training.saver._arenas.copies, other._arenas.copies) == (1, 8)
    other.close()
    training.saver.close()
