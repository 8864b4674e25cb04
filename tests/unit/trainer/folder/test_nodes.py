"""The folders of several nodes in one process: what a node that was not told of a commit does, and one that begins."""

import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.folders import archive, identity, pod

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints, Found, find
from holdfast_train.environment import Environment
from holdfast_train.errors import StorageError
from holdfast_train.folder import index, note
from holdfast_train.folder.beginning import Beginning
from holdfast_train.folder.commit import FolderCommit, FolderCommits
from holdfast_train.folder.launcher import Launcher
from holdfast_train.folder.lead_writer import LeadWriter
from holdfast_train.folder.link import Message, NodeAwayError
from holdfast_train.folder.node import NodeFolder
from holdfast_train.folder.nodes import Nodes
from holdfast_train.folder.same_save import Seen
from holdfast_train.folder.snapshot import ChangedError
from holdfast_train.format.codec import encoded
from holdfast_train.format.names import resolve
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.storage.retrying import RetryingStorage


class Away:
    """A server whose other node has gone."""

    nodes = 2
    shared = frozenset[int]()

    def ask(self, _messages: Mapping[int, Message], meanwhile: Callable[[], Any]) -> Any:
        meanwhile()
        raise NodeAwayError("node 1 does not answer")


class Two:
    """The folders of two nodes, and the storage of their job, of which one commit is kept."""

    def __init__(self, place: Path) -> None:
        (place / "store").mkdir()
        self.place = place
        self.storage = FolderStorage(place / "store" / "job")
        self.checkpoints = Checkpoints(self.storage, identity(), Keep(last=1))
        self.checkpoints.start("Auto")
        self.commits = FolderCommits(self.checkpoints, self.storage)
        self.folders = [self.folder(rank) for rank in (0, 1)]
        for folder in self.folders:
            folder.moment.begin({}, {})

    def folder(self, rank: int, **more: Any) -> NodeFolder:
        root = self.place / f"outputs-{rank}"
        root.mkdir(exist_ok=True)
        own = {"HOLDFAST_NODES": "2", "HOLDFAST_RANK": str(rank)}
        environment = Environment.read(pod(root, self.storage.uri, 1, self.place / "log", **own, **more))
        assert environment is not None
        return NodeFolder(environment, self.storage, root)

    def write(self, rank: int, name: str, text: str) -> None:
        archive(self.folders[rank].root / name, text.encode() * 100_000)

    def commit(self) -> FolderCommit | None:
        """Commit both folders. No node is told."""
        self.commits.prepare()
        for folder in self.folders:
            folder.look()
            folder.freeze_last(clean=True, joins=True)
        for folder in self.folders:
            folder.confirm()
        return self.commits.commit([folder.take() for folder in self.folders])


@pytest.fixture
def two(tmp_path: Path) -> Two:
    return Two(tmp_path)


# Breaks if the training ends, or node 0 forgets its own commit, because another node does not hear of it.
def test_a_node_that_does_not_hear_of_a_commit(two: Two) -> None:
    two.write(0, "a.pt", "a")
    made = two.commit()
    assert made is not None
    own = two.folders[0]
    Nodes(own, Away()).note_committed(made)  # type: ignore[arg-type]
    assert own.capture.before is not None
    assert not own.state().is_new


# Breaks if a node that was not told of commits gives data to one that is deleted, or its commits are never made again.
def test_a_node_learns_what_it_was_not_told(two: Two) -> None:
    for name, text in (("a.pt", "first"), ("a.pt", "second")):
        two.write(1, name, text)
        made = two.commit()
        assert made is not None
        two.folders[0].note_committed(made.known)
        if text == "first":
            two.folders[1].note_committed(made.known)
        known = made.known
    two.commits.prepare()  # deletes the data of the first commit
    (two.folders[1].root / "a.pt").unlink()
    two.write(1, "a.pt", "first")  # as it was then
    two.folders[1].look()
    two.folders[1].learn(known)
    assert two.commit() is not None


# Breaks if a node that has the newest commit, and was not told, makes another one of the same files.
def test_nothing_new_is_no_commit(two: Two) -> None:
    two.write(1, "a.pt", "a")
    made = two.commit()
    assert made is not None
    two.folders[0].note_committed(made.known)
    two.folders[1].learn(made.known)
    assert two.commit() is None


# Breaks if a process that takes the place of another one ends, because it is told of a commit of that.
def test_a_commit_of_the_process_before(two: Two) -> None:
    two.write(1, "a.pt", "a")
    made = two.commit()
    assert made is not None
    again = two.folder(1)
    again.take_over(made.known)
    again.note_committed(made.known)
    again.look()
    assert not again.state().is_new


# Breaks if a file that the program is writing when another process takes over counts as one that is at rest.
def test_what_is_there_when_a_process_takes_over_has_just_changed(two: Two) -> None:
    two.write(1, "a.pt", "a")
    again = two.folder(1)
    again.take_over(None)
    again.look()
    seen = again.state()
    assert seen.waits_for
    assert seen.quiet < 60
    with pytest.raises(ChangedError, match="not at rest"):
        again.freeze(joins=True)
    at_rest = two.folder(1, folder_quiet=1e-9)
    at_rest.take_over(None)
    at_rest.look()
    assert not at_rest.state().waits_for


# Breaks if a program that was killed leaves half of a file in the place of one that is committed, and that is taken.
def test_a_torn_file_in_the_place_of_a_whole_one(two: Two) -> None:
    two.write(1, "a.pt", "a")
    made = two.commit()
    assert made is not None
    for folder in two.folders:
        folder.note_committed(made.known)
    path = two.folders[1].root / "a.pt"
    path.write_bytes(path.read_bytes()[:50_000])
    os.utime(path, ns=(1, 1))
    two.folders[1].look()
    with pytest.raises(ChangedError, match="not whole"):
        two.folders[1].freeze_last(clean=False, joins=True)


# Breaks if a job with one node, or a look that finds nothing new, pays for what only several nodes compare: with many
# files that takes half a second in each look, and many seconds in one that sees a change.
def test_what_only_several_nodes_compare(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    own = two.folders[0]
    monkeypatch.setattr(own.moment, "lacks", lambda: pytest.fail("nothing is compared"))
    own.look()
    assert not own.state().is_new
    two.write(0, "a.pt", "a")
    own.look()
    (seen,) = Nodes(own, None).look().seen
    assert seen.waits_for
    with pytest.raises(pytest.fail.Exception):
        own.state()


class Asked:
    """A server with the nodes 1 and 2, of which those that are `missing` do not answer. What the others were asked."""

    nodes = 3

    def __init__(self, *missing: int) -> None:
        self.missing = list(missing)
        self.asked: list[tuple[int, str]] = []
        self.waits = 0

    def wait_for_all(self) -> None:
        self.waits += 1

    def ask(self, messages: Mapping[int, Message], meanwhile: Callable[[], Any]) -> Any:
        self.asked += [(rank, one["do"]) for rank, one in messages.items() if rank not in self.missing]
        done = meanwhile()
        if away := [rank for rank in messages if rank in self.missing]:
            raise NodeAwayError(f"node {away[0]} does not answer")
        told = {
            "seen": json.loads(json.dumps(Seen(1, lacks=("b",)), default=encoded)),
            "ended": None,
            "isTold": False,
            "pause": 40.0,
            "paths": ["b"],
        }
        return dict.fromkeys(messages, told), done


@pytest.fixture
def writer(two: Two) -> LeadWriter:
    root = two.folders[0].root
    environment = Environment.read(pod(root, two.storage.uri, 1, two.place / "log", HOLDFAST_NODES="3"))
    assert environment is not None
    return LeadWriter(environment, root, Launcher(io.StringIO()))


# Breaks if the program of a node never starts, because its writer was away when all programs might.
def test_a_program_that_starts_later(two: Two) -> None:
    server = Asked(2)
    nodes = Nodes(two.folders[0], server)  # type: ignore[arg-type]
    nodes.go("")
    assert server.asked == [(1, "go")]
    server.missing.clear()
    nodes.look()
    nodes.look()
    assert nodes.pause == 40.0  # the folder of another node is large
    assert [rank for rank, do in server.asked if do == "go"] == [1, 2]


# Breaks if node 0 ends because a node lacks a file that another one may have.
def test_a_file_that_another_node_has(two: Two) -> None:
    server = Asked()
    seen = Nodes(two.folders[0], server).look().seen  # type: ignore[arg-type]
    assert [one.rank for one in seen] == [0, 1, 2]
    assert [do for rank, do in server.asked if rank == 2] == ["look", "has", "state"]


# Breaks if the programs of all nodes lose what they save together on a notice, because one writer is away.
def test_a_notice_to_node_0_while_a_writer_is_away(writer: LeadWriter) -> None:
    server = Asked(1)
    writer._server = server  # type: ignore[assignment]
    writer._nodes = Nodes(writer._folder, server)  # type: ignore[arg-type]
    writer._has_met = writer._has_to_leave = True
    assert writer._look() is None
    assert (2, "leave") in server.asked


# Breaks if all is put back again and again, without a pause, while the writer of another node is away.
def test_node_0_waits_for_a_node_that_has_gone(writer: LeadWriter) -> None:
    server = Asked(1)
    writer._server = server  # type: ignore[assignment]
    writer._has_met = True
    writer._meet()
    assert server.waits == 1


# Breaks if what can never be committed is tried, and uploaded, in each look, and the operator does not learn of it.
def test_folders_that_are_too_much(writer: LeadWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MOST_FILES", 0)
    writer._take_over()
    writer._nodes = Nodes(writer._folder, None)
    archive(writer._root / "a.pt")
    view = writer._view()
    assert view is not None
    assert not writer._try(view, clean=True)
    assert writer._retry_at > 0
    assert "the folders of all nodes have 1 files" in (writer._progress.save_error or "")


class Source:
    """The checkpoint of a commit, or none."""

    def __init__(self, found: Found | None) -> None:
        self.found = found

    def newest(self) -> Found | None:
        return self.found

    def report_broken(self, found: Found, error: StorageError) -> None:
        raise error

    def accept(self, _found: Found) -> str:
        return ""


# Breaks if files that a person has put there are moved away, and deleted by a later start: because the job runs for the
# first time on this node, or because they are very many.
@pytest.mark.parametrize("is_checkpoint", [True, False])
@pytest.mark.parametrize("most", [9, 0])
def test_files_that_were_there_before_stay(
    two: Two, monkeypatch: pytest.MonkeyPatch, is_checkpoint: bool, most: int
) -> None:
    monkeypatch.setattr(note, "MOST_OLD", most)
    found = None
    if is_checkpoint:
        two.write(0, "a.pt", "a")
        made = two.commit()
        assert made is not None
        name = resolve(made.saved.uri)[1]
        assert name is not None
        found = find(two.storage, name)
    for attempt in (1, 2):
        folder = two.folder(2)
        folder.note.read()
        if attempt == 1:
            archive(folder.root / "data/of-a-person.pt")
        own = {"HOLDFAST_NODES": "3", "HOLDFAST_RANK": "2"}
        environment = Environment.read(pod(folder.root, two.storage.uri, attempt, two.place / "log", **own))
        assert environment is not None
        storage = RetryingStorage(two.storage)
        Beginning(environment, storage, folder, nodes=(0, 1, 2)).begin(Source(found))
        assert (folder.root / "data/of-a-person.pt").exists()
        assert (folder.root / "a.pt").exists() == is_checkpoint
        archive(folder.root / "later.pt")
    assert (folder.root / ".holdfast-aside/later.pt").exists() == bool(most)
