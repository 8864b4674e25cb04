"""Real libraries train on two nodes with checkpoint.folder, lose all nodes without notice, and go on in empty folders.

Each program ends with the losses and weights of one that nobody interrupts. No program knows of Holdfast.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.trainer.folder_nodes import Nodes
from tests.support.trainer.programs_on_nodes import Programs

pytestmark = pytest.mark.training
NODES = (0, 1)
# By program: its newest save when it is lost after its first commit, which it makes after step 4.
NEWEST = {
    "plain last": "last.pt",
    "plain parts": "step-4",
    "checkpoint": "step-4",
    "trainer rank-0": "checkpoint-4",
    "trainer each-node": "checkpoint-4",
    "trainer sharded": "checkpoint-4",
    "with_accelerate rank-0": "checkpoints/checkpoint_1",
    "with_accelerate each-node": "checkpoints/checkpoint_1",
    "with_accelerate sharded": "checkpoints/checkpoint_1",
    "with_lightning ddp": "last.ckpt",
    "with_lightning sharded": "last.ckpt",
}
THOROUGH = {"trainer each-node", "trainer sharded", "with_accelerate each-node", "with_accelerate sharded"}
THOROUGH |= {"plain last", "with_lightning sharded"}


def roots(place: Path, name: str, *, is_shared: bool = False) -> list[Path]:
    """A folder for each node, or one for all."""
    return [place / (f"outputs{name}" if is_shared else f"outputs{name}-{node}") for node in NODES]


def of_kind(lines: Sequence[str], *kinds: str, after: int = 0) -> list[str]:
    """The lines of these kinds. Losses: of the steps after `after`."""
    found = (line.split() for line in lines if line.startswith(kinds))
    return [" ".join(words) for words in found if words[0] != "loss" or int(words[1]) > after]


class Training:
    """Of a `program`, in `place`. `order`: the rank of each node from the second attempt on."""

    def __init__(self, place: Path, program: str, *, is_shared: bool = False, order: Sequence[int] = NODES) -> None:
        self.place, self.program, self.order = place, program, order
        self.is_shared = is_shared
        self.folders = roots(place, "", is_shared=is_shared)
        self.attempt, self.step, self.newest = 0, 0, ""
        self.undisturbed: Programs | None = None
        self.last: Programs | None = None  # the attempt before

    def start(self, nodes: Nodes, steps: Sequence[int] = ()) -> Programs:
        """The next attempt begins. It waits after the saves of these `steps`."""
        assert nodes.are_ready() == [str(folder / self.newest) if self.newest else "" for folder in self.folders]
        assert nodes[0].said("share the volume of another one") == self.is_shared
        place, holds = self.place / str(self.attempt), ",".join(map(str, steps))
        order = NODES if self.attempt == 1 else self.order
        return Programs(place, self.program, self.folders, holds, order=order)

    def nodes(self) -> Nodes:
        """The writers of the next attempt. The folders are new ones."""
        for folder in set(self.folders):
            shutil.rmtree(folder, ignore_errors=True)
        self.attempt += 1
        return Nodes(self.place, self.attempt, self.folders)

    def lose(self, *commits: str) -> None:
        """All processes of all nodes end at once after as many commits. Of each: its newest save."""
        steps = [max(self.step, 2) + 2 * (number + 1) for number in range(len(commits))]
        with self.nodes() as nodes, self.start(nodes, steps) as programs:
            programs.wait_for_save(steps[0])
            self.end_undisturbed()  # while node 0 waits for the other parts of the first save
            for step, newest in zip(steps, commits, strict=True):
                programs.wait_for_save(step)
                nodes.wait_for_commit(f"the newest save is {newest}")
                if step != steps[-1]:
                    programs.go(step)
        self.compare(programs)
        self.step, self.newest, self.last = steps[-1], commits[-1], programs

    def end_undisturbed(self) -> None:
        """Another training runs to its end."""
        if self.undisturbed is None:
            folders = roots(self.place, "-alone", is_shared=self.is_shared)
            with Programs(self.place / "alone", self.program, folders) as self.undisturbed:
                self.undisturbed.join()

    def end(self) -> None:
        """The last attempt, which nobody interrupts."""
        with self.nodes() as nodes, self.start(nodes) as programs:
            programs.join()
            assert nodes.finish() == ["done", "done"]
            assert {node.verdict.result for node in nodes.nodes} == {"completed"}
        self.compare(programs, is_whole=True)

    def compare(self, programs: Programs, *, is_whole: bool = False) -> None:
        """An attempt begins after the committed step, and has what the undisturbed training has, to the end or not."""
        assert self.undisturbed is not None
        for rank in NODES:
            lines, whole = programs.lines(rank), self.undisturbed.lines(rank)
            assert lines[0] == f"start {self.step}", f"rank {rank}"
            found = of_kind(lines, "loss", "result", "best")
            wanted = of_kind(whole, "loss", "result", "best", after=self.step)
            assert found
            assert found == (wanted if is_whole else wanted[: len(found)]), f"rank {rank}"
            if self.last is not None and lines[1].startswith("random"):
                assert lines[1] == of_kind(self.last.lines(rank), "random")[-1]


# Breaks if a node does not find what its program needs to resume, or finds it of another save than the other node.
@pytest.mark.parametrize(
    "program",
    [pytest.param(name, marks=pytest.mark.thorough) if name in THOROUGH else name for name in NEWEST],
)
def test_a_program_of_two_nodes_loses_both(tmp_path: Path, program: str) -> None:
    training = Training(tmp_path, program)
    training.lose(NEWEST[program])
    training.end()


# Breaks if files that a program has deleted on its nodes come back, or if its ranks need the nodes that they had.
def test_a_program_whose_ranks_change_places_after_two_commits(tmp_path: Path) -> None:
    training = Training(tmp_path, "plain parts", order=(1, 0))
    training.lose("step-4", "step-6")
    training.end()
    for root in roots(tmp_path, ""):
        assert sorted(path.name for path in root.glob("step-*")) == ["step-6", "step-8"]


# Breaks if nodes that share a volume are taken for nodes with folders of their own.
@pytest.mark.parametrize(
    "program",
    ["checkpoint", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("plain last", "trainer rank-0"))],
)
def test_a_program_of_two_nodes_that_share_a_volume_loses_both(tmp_path: Path, program: str) -> None:
    training = Training(tmp_path, program, is_shared=True)
    training.lose(NEWEST[program])
    training.end()


# Breaks if a node that has only been given a save of another node finds that one again, and not the newer one.
@pytest.mark.parametrize(
    ("program", "saves"),
    [
        ("plain last", ["last.pt", "last.pt"]),
        pytest.param("trainer rank-0", ["checkpoint-4", "checkpoint-6"], marks=pytest.mark.thorough),
    ],
)
def test_a_program_whose_rank_0_alone_saves_loses_both_nodes_twice(
    tmp_path: Path, program: str, saves: list[str]
) -> None:
    training = Training(tmp_path, program)
    for newest in saves:
        training.lose(newest)
    training.end()
