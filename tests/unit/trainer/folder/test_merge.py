"""One index of the folders of several nodes: each node finds its own files again, with hypothesis."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast_train.folder.index import Chunk, Index, Saved, decode, encode
from holdfast_train.folder.look import File
from holdfast_train.folder.merge import merged, of_node
from holdfast_train.folder.newest import is_in
from holdfast_train.format.manifest import Part


@dataclass(frozen=True)
class Folder:
    """What a node has: `files` with their bytes, a text for a link; and `empty` folders."""

    files: Mapping[str, bytes | str]
    empty: tuple[str, ...] = ()
    newest: str = ""

    @property
    def paths(self) -> list[str]:
        return [*self.files, *self.empty]


def data_key(node: int, number: int) -> str:
    return f"data/node-{node}/{number}"


def share(node: int, folder: Folder, shift: int = 0) -> Index:
    """What the node gives to a commit. Each content lies in a part of its own, after `shift` bytes; one is unused."""
    contents = sorted({one for one in folder.files.values() if isinstance(one, bytes)})
    parts = tuple(Part(data_key(node, number), shift + len(one), 1, ()) for number, one in enumerate(contents))
    hashes = [hashlib.sha256(one).hexdigest() for one in contents]
    order = sorted(range(len(contents)), key=lambda number: hashes[number])
    chunks = tuple(Chunk(hashes[number], number, shift, len(contents[number])) for number in order)
    files = {}
    for path, content in sorted(folder.files.items()):
        is_link = isinstance(content, str)
        numbers = () if isinstance(content, str) else (order.index(contents.index(content)),)
        file = File(path, 0 if is_link else len(content), node, 0o644, content if isinstance(content, str) else None)
        files[path] = Saved(file, numbers)
    unused = Part(data_key(node, 99), 7, 1, ())
    step = 5 if folder.newest else None
    return Index(files, chunks, (*parts, unused), folder.newest, step, empty=tuple(sorted(folder.empty)))


def content_of(known: Index, folders: Sequence[Folder | None]) -> dict[str, bytes | str]:
    """The bytes of each file, read from the parts that the index names."""
    found: dict[str, bytes | str] = {}
    for path, saved in known.files.items():
        data = b""
        for number in saved.chunks:
            chunk = known.chunks[number]
            _, node, part = known.parts[chunk.part].key.split("/")
            folder = folders[int(node.removeprefix("node-"))]
            assert folder is not None
            content = sorted({one for one in folder.files.values() if isinstance(one, bytes)})[int(part)]
            data += (b"\0" * SHIFT + content)[chunk.start : chunk.start + chunk.size]
        found[path] = data if saved.file.link is None else saved.file.link
    return found


SHIFT = 3
names = st.sampled_from(["a", "b", "step-5", "train.log"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@st.composite
def folders(draw: st.DrawFn) -> Folder:
    found = draw(st.lists(paths, max_size=6, unique=True))
    found = [path for path in found if not any(one != path and is_in(one, path) for one in found)]
    contents = st.one_of(st.binary(min_size=1, max_size=2), st.sampled_from(["a", "elsewhere"]))
    files = {path: draw(contents) for path in found if draw(st.integers(0, 4))}
    empty = tuple(path for path in found if path not in files)
    tops = sorted({path.split("/")[0] for path in files})
    return Folder(files, empty, draw(st.sampled_from(["", *tops])))


def fits(path: str, folder: Folder) -> bool:
    """Whether the node could have a file at `path` beside what it has."""
    return not any(is_in(path, one) or is_in(one, path) for one in folder.files)


# Breaks if a node does not find its own files with their bytes, or not those of the others beside them; if an index
# cannot be read again, or names data that is not there, or keeps some that nobody needs.
@given(st.lists(st.none() | folders(), min_size=1, max_size=4).filter(any))
@example([Folder({"a": b"file"}), Folder({"a/b": b"below"})])
@example([Folder({"a/b": b"below"}), Folder({"a": b"file"}), Folder({"a/b": b"other"})])
@example([Folder({"a": b"file"}), Folder({}, ("a/b",))])
@example([Folder({}, ("a/b",)), Folder({"a": "elsewhere"})])
def test_each_node_finds_its_own_files(nodes: list[Folder | None]) -> None:
    given_shares = [None if one is None else share(node, one, SHIFT) for node, one in enumerate(nodes)]
    known = merged(given_shares)
    if len(nodes) > 1:
        known = decode(encode(known), known.parts)
        used = {chunk.part for chunk in known.chunks}
        assert used == set(range(len(known.parts)))
        assert known == replace(merged(given_shares), is_beside=False)
    assert known.nodes == len(nodes)
    everything = {path for one in nodes if one is not None for path in one.files}
    for node, folder in enumerate(nodes):
        view = known.view(node)
        found = content_of(view, nodes)
        if folder is None:
            continue
        assert {path: found[path] for path in folder.files} == folder.files
        assert found.keys() <= everything
        others = {path for path in everything if fits(path, folder)}
        lacks = others - found.keys()  # only what has no place beside the file of another node
        assert all(any(is_in(path, one) or is_in(one, path) for one in found) for path in lacks)
        for path in found.keys() - folder.files.keys():
            assert found[path] in {one.files[path] for one in nodes if one is not None and path in one.files}
        assert not any(is_in(one, path) for one in view.empty for path in found)
        own = of_node(known, node, tuple(folder.files), folder.empty)
        assert own.files.keys() == folder.files.keys()
        assert own.empty == folder.empty


# Breaks if a save of which nodes have parts of their own is given to another number of nodes, or one by a single node
# is not.
@given(st.lists(folders(), min_size=2, max_size=3))
@example([Folder({"step-5/w": b"1"}, newest="step-5"), Folder({"step-5/w": b"2"}, newest="step-5")])
@example([Folder({"step-5/w": b"1"}, newest="step-5"), Folder({"train.log": b"2"})])
@example([Folder({"step-5/w": b"1", "train.log": b"1"}, newest="step-5"), Folder({"train.log": b"2"})])
def test_fixed_if_a_save_has_files_of_a_node_of_its_own(nodes: list[Folder]) -> None:
    known = merged([share(node, one) for node, one in enumerate(nodes)])
    assert known.is_fixed == any(
        one.newest and is_in(path, one.newest) and content_of_first(path, nodes) != content
        for one in nodes
        for path, content in one.files.items()
    )


def content_of_first(path: str, nodes: Sequence[Folder]) -> bytes | str | None:
    """What a node without files of its own finds at `path`."""
    files: dict[str, bytes | str] = {}
    for node in nodes:
        fit = {p: c for p, c in node.files.items() if not any(is_in(p, one) or is_in(one, p) for one in files)}
        files |= fit
    return files.get(path)


# Breaks if a node takes the file of another one, of which it finds a copy, for its own; or its own one for a copy.
@given(st.lists(st.none() | folders(), min_size=2, max_size=4).filter(any))
def test_a_copy_is_a_file_of_another_node(nodes: list[Folder | None]) -> None:
    known = merged([None if one is None else share(node, one) for node, one in enumerate(nodes)])
    known = decode(encode(known), known.parts)
    having = [node for node, one in enumerate(nodes) if one is not None]
    for node, folder in enumerate(nodes):
        for path in known.view(node).files if folder is not None else ():
            assert folder is not None
            assert known.is_copy(path, node, having) == (path not in folder.files)


# Breaks if a file is a copy on all nodes, and so in no commit, because the nodes are others than before.
@given(st.lists(st.none() | folders(), min_size=1, max_size=4).filter(any), st.sets(st.integers(1, 4)))
def test_each_file_has_an_owner_among_other_nodes(nodes: list[Folder | None], others: set[int]) -> None:
    known = merged([None if one is None else share(node, one) for node, one in enumerate(nodes)])
    now = {0, *others}
    for path in known.files:
        assert not all(known.is_copy(path, node, now) for node in now)


# Breaks if the newest save of a training is not that of the lowest node that has one.
def test_the_newest_save_is_that_of_the_lowest_node_with_one() -> None:
    nodes = [Folder({"train.log": b"1"}), Folder({"step-5/w": b"1"}, newest="step-5"), Folder({"b": b"1"}, newest="b")]
    known = merged([share(node, one) for node, one in enumerate(nodes)])
    assert (known.newest, known.step) == ("step-5", 5)


# Breaks if bytes that several nodes have uploaded are kept more than once.
def test_the_same_bytes_are_kept_once() -> None:
    nodes = [Folder({"w": b"1", "0": b"2"}), Folder({"w": b"1", "1": b"3"}), None]
    known = merged([None if one is None else share(node, one) for node, one in enumerate(nodes)])
    assert sorted(part.key for part in known.parts) == [data_key(0, 0), data_key(0, 1), data_key(1, 1)]
    assert known.own == ()
