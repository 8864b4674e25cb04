"""checkpoint.folder on several nodes: one record commits the folders of all, or none."""

import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.support.http.s3_server import S3Server
from tests.support.trainer import folder_nodes
from tests.support.trainer.folders import QUIET, archive, content, identity
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import find
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.folder.index import Index, read_index
from holdfast_train.storage.folder import FolderStorage

Nodes = partial(folder_nodes.Nodes, folder_quiet=QUIET)
SOON = 8 * QUIET  # seconds, in which a save that is whole is committed, other than the first one


def roots(place: Path, attempt: int, count: int = 2) -> list[Path]:
    return [place / f"outputs-{attempt}-{rank}" for rank in range(count)]


def part(root: Path, rank: int, step: int, name: str = "") -> Path:
    """The file of a node in a save."""
    return archive(root / (name or f"step-{step}/rank-{rank}.pt"), f"rank {rank}, step {step}".encode() * 50_000)


def save(root: Path, rank: int, step: int) -> None:
    """The part of a node of a save, and a log of its own."""
    part(root, rank, step)
    with (root / "train.log").open("a") as log:
        log.write(f"rank {rank} has saved step {step}\n")


def save_all(folders: list[Path], step: int) -> None:
    for rank, root in enumerate(folders):
        save(root, rank, step)


def log(place: Path) -> CommitLog:
    found = CommitLog(FolderStorage(place / "volume" / "job"), identity(99))
    found.refresh()
    return found


def commits(place: Path) -> Iterator[Index]:
    """What each commit has that the log still names, the newest one first."""
    storage = FolderStorage(place / "volume" / "job")
    for commit in reversed(log(place).state.commits):
        yield read_index(storage, find(storage, commit.name))


def newest(place: Path) -> Index:
    return next(commits(place))


# Breaks if a node does not find its own files and those of the others, after all nodes are lost.
def test_each_node_finds_its_folder_again(tmp_path: Path) -> None:
    first = roots(tmp_path, 1)
    with Nodes(tmp_path, 1, first) as nodes:
        assert nodes.are_ready() == ["", ""]
        save_all(first, 10)
        nodes.wait_for_commit("step-10")
    second = roots(tmp_path, 2)
    with Nodes(tmp_path, 2, second) as nodes:
        assert nodes.are_ready() == [str(root / "step-10") for root in second]
        for rank, root in enumerate(second):
            found = content(root)
            assert found.keys() == {"step-10/rank-0.pt", "step-10/rank-1.pt", "train.log"}
            assert found["train.log"] == f"rank {rank} has saved step 10\n".encode()
            assert found[f"step-10/rank-{rank}.pt"] == content(first[rank])[f"step-10/rank-{rank}.pt"]
        assert nodes.finish() == ["done", "done"]
        assert {node.verdict.result for node in nodes.nodes} == {"completed"}


# Breaks if the part of one node is committed with an older part of another one: seconds before that is written, when
# the writers are started again in between, or in a later attempt. The names and formats of the files say no step.
@pytest.mark.thorough
def test_a_node_that_writes_its_part_later(tmp_path: Path) -> None:
    folders, keep = roots(tmp_path, 1), Keep(last=9)
    with Nodes(tmp_path, 1, folders, keep=keep) as nodes:
        nodes.are_ready()
        for rank, root in enumerate(folders):
            part(root, rank, 10, f"last/rank-{rank}.pt")
        nodes.wait_for_commit("last")
        part(folders[0], 0, 20, "last/rank-0.pt")
        nodes.stay_uncommitted(SOON)
        for node in nodes.nodes:
            node.again()
        assert nodes.are_ready() == ["", ""]
        nodes.stay_uncommitted(SOON + 12 * QUIET)
        part(folders[1], 1, 20, "last/rank-1.pt")
        step_20 = [content(root)[f"last/rank-{rank}.pt"] for rank, root in enumerate(folders)]
        wait_for(lambda: nodes.commits == 2, 60, "the commit of both")
    later = roots(tmp_path, 2)
    with Nodes(tmp_path, 2, later, keep=keep) as nodes:
        nodes.are_ready()
        for root in later:
            assert [content(root)[f"last/rank-{rank}.pt"] for rank in (0, 1)] == step_20
        part(later[1], 1, 30, "last/rank-1.pt")
        nodes.stay_uncommitted(SOON + 12 * QUIET)
        part(later[0], 0, 30, "last/rank-0.pt")
        step_30 = [content(root)[f"last/rank-{rank}.pt"] for rank, root in enumerate(later)]
        wait_for(lambda: nodes.commits == 1, 60, "the commit of both")
    assert len(list(commits(tmp_path))) == 3
    third = roots(tmp_path, 3)
    with Nodes(tmp_path, 3, third) as nodes:
        nodes.are_ready()
        for root in third:
            assert [content(root)[f"last/rank-{rank}.pt"] for rank in (0, 1)] == step_30


# Breaks if a node does not find what only rank 0 has written, if it finds an older one because it had a copy of that,
# or if a training on one node cannot go on from it on two, or the other way round.
@pytest.mark.thorough
def test_only_rank_0_saves(tmp_path: Path) -> None:
    wanted: dict[str, bytes] = {}
    for attempt, count in enumerate((2, 2, 1, 2, 2), 1):
        folders = roots(tmp_path, attempt, count)
        with Nodes(tmp_path, attempt, folders) as nodes:
            nodes.are_ready()
            assert [content(root) for root in folders] == [wanted] * count
            if attempt == 2:
                nodes[-1].again()
                nodes[-1].told()
            wanted = {"last.pt": part(folders[0], 0, attempt, "last.pt").read_bytes()}
            (folders[0] / "old.pt").unlink(missing_ok=True)
            if attempt == 1:
                wanted["old.pt"] = part(folders[0], 0, attempt, "old.pt").read_bytes()
            nodes.wait_for_commit("")
        assert not newest(tmp_path).is_fixed


# Breaks if a node finds an older part of another node, because it had a copy of that; or if a part that its node has
# deleted comes back.
@pytest.mark.thorough
def test_parts_that_are_overwritten_and_deleted(tmp_path: Path) -> None:
    wanted: dict[str, bytes] = {}
    for attempt in (1, 2, 3):
        folders = roots(tmp_path, attempt)
        with Nodes(tmp_path, attempt, folders) as nodes:
            nodes.are_ready()
            assert [content(root) for root in folders] == [wanted] * 2
            wanted = {}
            for rank, root in enumerate(folders):
                (root / f"old/rank-{rank}.pt").unlink(missing_ok=True)
                for name in ("last", "old")[: 2 if attempt == 1 else 1]:
                    found = part(root, rank, attempt, f"{name}/rank-{rank}.pt")
                    wanted[str(found.relative_to(root))] = found.read_bytes()
            nodes.wait_for_commit("")


# Breaks if a volume that two nodes share is taken twice, or if a writer in the place of node 0's does not know it.
def test_a_shared_volume_is_taken_once(tmp_path: Path) -> None:
    root = tmp_path / "outputs"
    with Nodes(tmp_path, 1, [root, root]) as nodes:
        nodes.are_ready()
        assert nodes[0].said("the nodes 1 share the volume of another one")
        save_all([root, root], 10)
        nodes.wait_for_commit("step-10")
        nodes[0].again()
        nodes[0].told()
        save_all([root, root], 20)
        nodes.wait_for_commit("step-20")
        known = newest(tmp_path)
        assert known.files.keys() == content(root).keys()
        assert (known.own, known.nodes) == ((), 2)
        assert nodes.finish() == ["done", "done"]
        assert {node.verdict.result for node in nodes.nodes} == {"completed"}


# Breaks if a save of torch.distributed.checkpoint, whose last file is on one node only, waits as one that is torn.
def test_the_last_file_of_a_save_is_on_another_node(tmp_path: Path) -> None:
    folders = roots(tmp_path, 1)
    with Nodes(tmp_path, 1, folders) as nodes:
        nodes.are_ready()
        for rank, root in enumerate(folders):
            part(root, rank, 10, f"step-10/__{rank}_0.distcp")
        (folders[0] / "step-10/.metadata").write_bytes(b"\x80\x04N.")
        wait_for(lambda: nodes.commits == 1, 18, "the first commit")
        part(folders[1], 1, 20, "step-20/__1_0.distcp")
        part(folders[0], 0, 20, "step-20/__0_0.distcp")
        nodes.stay_uncommitted(SOON)
        (folders[0] / "step-20/.metadata").write_bytes(b"\x80\x04N.")
        wait_for(lambda: nodes.commits == 2, 18, "the second commit")
        assert not any(node.said("not whole") for node in nodes.nodes)


# Breaks if commits end, or have a part only, when another writer takes the place of one that was killed; or if a node
# whose writer is away is left out, or nothing is said of it.
@pytest.mark.thorough
def test_writers_that_are_killed_beside_the_program(tmp_path: Path) -> None:
    folders = roots(tmp_path, 1)
    with Nodes(tmp_path, 1, folders, keep=Keep(last=9)) as nodes:
        nodes.are_ready()
        save_all(folders, 10)
        nodes.wait_for_commit("step-10")
        nodes[0].again()
        nodes[0].told()
        save_all(folders, 20)
        nodes.wait_for_commit("step-20")
        nodes[1].kill()
        save_all(folders, 30)
        wait_for(lambda: nodes[0].said("the process that saves the folder of node 1 does not answer"), 30, "words")
        nodes.stay_uncommitted(SOON)
        nodes[1].take_place()
        nodes[1].told()
        nodes.wait_for_commit("step-30")
        assert nodes.finish() == ["done", "done"]
        assert {node.verdict.result for node in nodes.nodes} == {"completed"}
        assert {node.verdict.saved_step for node in nodes.nodes} == {30}
    wanted = {f"step-{step}/rank-{rank}.pt" for step in (10, 20, 30) for rank in (0, 1)}
    assert newest(tmp_path).files.keys() == {*wanted, "train.log"}


# Breaks if so many nodes begin with parts of a save that others wrote, or if a person is not told what to change.
@pytest.mark.thorough
def test_another_number_of_nodes(tmp_path: Path) -> None:
    folders = roots(tmp_path, 1)
    with Nodes(tmp_path, 1, folders) as nodes:
        nodes.are_ready()
        for rank, root in enumerate(folders):
            part(root, rank, 10, "step-10/optimizer.pt")
        nodes.wait_for_commit("step-10")
    assert newest(tmp_path).is_fixed
    for attempt, count in ((2, 1), (3, 3)):
        with Nodes(tmp_path, attempt, roots(tmp_path, attempt, count)) as nodes:
            assert [node.told().get("state") for node in nodes.nodes] == ["refused"] * count
            for node in nodes.nodes:
                assert node.process.wait(timeout=60) == 78
                assert node.verdict.result == "misconfigured"
                assert "set trainer.nodes to 2" in node.verdict.message
    with Nodes(tmp_path, 4, roots(tmp_path, 4)) as nodes:
        nodes.are_ready()
        for rank, node in enumerate(nodes.nodes):
            assert content(node.root)["step-10/optimizer.pt"] == content(folders[rank])["step-10/optimizer.pt"]


# Breaks if what all programs save on a notice is not committed, or a launcher is not told so, or if the program of a
# node that has got no notice is not told to leave.
def test_a_notice(tmp_path: Path) -> None:
    folders = roots(tmp_path, 1)
    with Nodes(tmp_path, 1, folders) as nodes:
        nodes.are_ready()
        nodes[1].finish(0, signalled=True, seconds=100)
        assert nodes[0].told() == {"state": "leave"}
        save_all(folders, 20)
        nodes[0].finish(0, signalled=True, seconds=100)
        assert [str(node.told().get("state")) for node in nodes.nodes] == ["done", "done"]
        assert [(node.verdict.result, node.verdict.saved_step) for node in nodes.nodes] == [("saved", 20)] * 2
    assert log(tmp_path).state.handed_over
    assert newest(tmp_path).files.keys() == {"step-20/rank-0.pt", "step-20/rank-1.pt", "train.log"}


# Breaks if the program of a node does not hear of a notice because its writer was away then, or hears of it twice.
def test_a_notice_while_a_writer_is_away(tmp_path: Path) -> None:
    with Nodes(tmp_path, 1, roots(tmp_path, 1)) as nodes:
        nodes.are_ready()
        nodes[1].kill()
        nodes[0].finish(0, signalled=True, seconds=100)
        nodes[1].take_place()
        assert [nodes[1].told()["state"] for _ in range(2)] == ["ready", "leave"]
        nodes[1].again()
        assert nodes[1].told()["state"] == "ready"
        nodes[1].finish(143, signalled=True, seconds=100)
        assert [str(node.told().get("state")) for node in nodes.nodes] == ["done", "done"]
        assert {node.verdict.result for node in nodes.nodes} == {"left"}


# Breaks if a save in which the programs were killed is committed, or is half of a commit: as a new one, in the place of
# the last one, or if one node has not begun with it.
@pytest.mark.parametrize("how", ["new", "in place", "not begun"])
def test_killed_in_the_middle_of_a_save(tmp_path: Path, how: str) -> None:
    names = ["step-10/rank-{}.pt", "step-20/rank-{}.pt"] if how == "new" else ["last/rank-{}.pt"] * 2
    first = roots(tmp_path, 1)
    with Nodes(tmp_path, 1, first) as nodes:
        nodes.are_ready()
        for rank, root in enumerate(first):
            part(root, rank, 10, names[0].format(rank))
        nodes.wait_for_commit("")
        before = [content(root)[names[0].format(rank)] for rank, root in enumerate(first)]
        part(first[0], 0, 20, names[1].format(0))
        if how != "not begun":
            torn = part(first[1], 1, 20, names[1].format(1))
            torn.write_bytes(torn.read_bytes()[:400_000])
        assert nodes.finish(None) == ["done", "done"]
        assert not [
            node for node in nodes.nodes if list(node.verdicts.iterdir()) and node.verdict.result == "completed"
        ]
    second = roots(tmp_path, 2)
    with Nodes(tmp_path, 2, second) as nodes:
        nodes.are_ready()
        for root in second:
            assert [content(root)[names[0].format(rank)] for rank in (0, 1)] == before
            assert not (root / "step-20").exists()


# Breaks if a training counts as completed although one of its programs has failed, or if its writer ends otherwise.
@pytest.mark.parametrize("failed", [0, 1])
def test_one_program_fails(tmp_path: Path, failed: int) -> None:
    folders = roots(tmp_path, 1)
    with Nodes(tmp_path, 1, folders) as nodes:
        nodes.are_ready()
        save_all(folders, 10)
        nodes[failed].finish(3)
        nodes[1 - failed].finish(0)
        assert [str(node.told().get("state")) for node in nodes.nodes] == ["done", "done"]
        other = nodes[1 - failed].verdict
        assert (other.result, f"node {failed} ended with exit code 3" in other.message) == ("failed", True)
        own = list(nodes[failed].verdicts.iterdir())
        assert not own or nodes[failed].verdict.result == "running"
    assert log(tmp_path).state.complete is None


# Breaks if the failure of one program is not told while those of other nodes wait for it for ever.
@pytest.mark.thorough
@pytest.mark.parametrize("failed", [0, 1])
def test_one_program_fails_and_the_other_hangs(tmp_path: Path, failed: int) -> None:
    with Nodes(tmp_path, 1, roots(tmp_path, 1)) as nodes:
        nodes.are_ready()
        nodes[failed].finish(3)
        assert nodes[failed].told() == {"state": "done"}
        assert not list(nodes[failed].verdicts.iterdir())


# Breaks if a program finds files from after the commit where other nodes go on from the commit, if the folders are read
# from the storage although they are there, or if files that were there before the job are moved.
@pytest.mark.thorough
def test_the_same_folders_in_a_later_attempt(tmp_path: Path) -> None:
    folders = roots(tmp_path, 1)
    for root in folders:
        part(root, 7, 7, "pretrained/model.pt")
    with Nodes(tmp_path, 1, folders) as nodes:
        nodes.are_ready()
        save_all(folders, 10)
        nodes.wait_for_commit("step-10")
        before = [content(root) for root in folders]
        save(folders[0], 0, 20)
        nodes.stay_uncommitted(SOON)
    with Nodes(tmp_path, 2, folders) as nodes:
        assert nodes.are_ready() == [str(root / "step-10") for root in folders]
        assert nodes[0].said("moved to")
        for rank, root in enumerate(folders):
            found = content(root)
            assert {path: found[path] for path in before[rank]} == before[rank]
            assert not (root / "step-20").exists()
            others = f"step-10/rank-{1 - rank}.pt"
            assert found.keys() - before[rank].keys() == {others}
            assert (root / "pretrained/model.pt").exists()
        save_all(folders, 20)
        nodes.wait_for_commit("step-20")
    for attempt in (3, 4):  # in the third one each node gets the part of the other one
        with Nodes(tmp_path, attempt, folders) as nodes:
            nodes.are_ready()
            assert any(node.said("; 0.0 MiB were read") for node in nodes.nodes) == (attempt == 4)


# Breaks if an attempt that a later one has replaced commits anything, or if its programs are not ended.
@pytest.mark.thorough
def test_an_attempt_that_is_replaced(tmp_path: Path) -> None:
    first, second = roots(tmp_path, 1), roots(tmp_path, 2)
    with Nodes(tmp_path, 1, first) as old:
        old.are_ready()
        save_all(first, 10)
        old.wait_for_commit("step-10")
        with Nodes(tmp_path, 2, second) as new:
            new.are_ready()
            save_all(first, 20)
            assert [node.told().get("state") for node in old.nodes] == ["fenced", "fenced"]
            assert {node.verdict.result for node in old.nodes} == {"fenced"}
            save_all(second, 30)
            new.wait_for_commit("step-30")
    found = newest(tmp_path).files
    assert {path.partition("/")[0] for path in found} == {"step-10", "step-30", "train.log"}


# Breaks if the writer of a node of a replaced attempt, whose node 0 is gone, waits for that for ever.
def test_a_node_whose_node_0_is_gone(tmp_path: Path) -> None:
    with Nodes(tmp_path, 1, roots(tmp_path, 1)) as old:
        old.are_ready()
        old[0].kill()
        with Nodes(tmp_path, 2, roots(tmp_path, 2)) as new:
            new.are_ready()
            assert old[1].told() == {"state": "fenced"}


# Breaks if a program is ended, or a save lost, because the storage does not answer for a while.
@pytest.mark.thorough
def test_an_outage(tmp_path: Path, s3: S3Server) -> None:
    folders, uri = roots(tmp_path, 1), f"s3://{s3.bucket}/folder/{uuid.uuid4().hex}"
    with Nodes(tmp_path, 1, folders, uri=uri, **s3.variables) as nodes:
        nodes.are_ready()
        s3.kill()
        save_all(folders, 10)
        wait_for(lambda: nodes[0].said("the folder is not saved: "), 60, "the outage to be noticed")
        nodes[0].kill()
        wait_for(lambda: nodes[1].said("waits for the process that saves the folder of node 0"), 60, "a lonely node")
        s3.start()
        nodes[0].take_place()
        nodes[0].told()
        nodes.wait_for_commit("step-10", 90)
        assert nodes.finish() == ["done", "done"]
        assert {node.verdict.result for node in nodes.nodes} == {"completed"}


# Breaks if nodes go on from two commits, because one of them cannot read its part of the newest one.
def test_a_checkpoint_of_which_the_part_of_one_node_is_broken(tmp_path: Path) -> None:
    first = roots(tmp_path, 1)
    with Nodes(tmp_path, 1, first, keep=Keep(last=9)) as nodes:
        nodes.are_ready()
        for step in (10, 20):
            for rank, root in enumerate(first):
                part(root, rank, step, f"step-{step}/optimizer.pt")
            nodes.wait_for_commit(f"step-{step}")
    known = newest(tmp_path)
    chunk = known.chunks[known.own[1]["step-20/optimizer.pt"].chunks[0]]
    stored = tmp_path / "volume/job" / known.parts[chunk.part].key
    data = bytearray(stored.read_bytes())
    data[chunk.start + 1000] ^= 1
    stored.chmod(0o644)
    stored.write_bytes(data)
    second = roots(tmp_path, 2)
    with Nodes(tmp_path, 2, second) as nodes:
        assert nodes.are_ready() == [str(root / "step-10") for root in second]
        for rank, root in enumerate(second):
            assert content(root) == {"step-10/optimizer.pt": content(first[rank])["step-10/optimizer.pt"]}
            assert not (root / "step-20").exists()
