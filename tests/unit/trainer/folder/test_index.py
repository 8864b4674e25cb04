"""The index: what it has comes back, and no index of a stranger leads out of the folder."""

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.folder import index
from holdfast_train.folder.index import Chunk, Index, Saved, check_fits, decode, encode
from holdfast_train.folder.look import File, TooMuchError
from holdfast_train.format.manifest import PART_BYTES, Part

PARTS = (Part("data/1", 100, 1, ()), Part("data/2", 50, 1, ()))
SHA = "a" * 64

names = st.one_of(
    st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=12),
    st.binary(min_size=1, max_size=12).map(os.fsdecode).filter(lambda name: not set(name) & set("/\0")),
).filter(lambda name: name not in (".", "..") and not name.startswith(".holdfast-"))
times = st.integers(-(2**63) + 1, 2**63 - 1)
texts = st.text(max_size=20)


@st.composite
def indexes(draw: st.DrawFn) -> Index:
    """Files with chunks of PARTS, and links."""
    paths = draw(st.lists(st.lists(names, min_size=1, max_size=3).map(tuple), max_size=6, unique=True))
    paths = [path for path in paths if not any(path[: len(one)] == one for one in paths if one != path)]
    places = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 25), st.integers(0, 25)), min_size=1))
    chunks = tuple(Chunk(f"{number:064x}", *place) for number, place in enumerate(places))
    files = {}
    for path in map("/".join, paths):
        link = draw(st.none() | texts.filter(bool))
        numbers = () if link else tuple(draw(st.lists(st.integers(0, len(chunks) - 1), max_size=4)))
        size = sum(chunks[number].size for number in numbers)
        file = File(path, size, draw(times), draw(st.integers(0, 0o777)), link)
        files[path] = Saved(file, numbers, draw(st.booleans()))
    step = draw(st.none() | st.integers(0, 10**15))
    return Index(files, chunks, PARTS, draw(texts), step, draw(texts))


@given(indexes())
def test_there_and_back(known: Index) -> None:
    """Breaks if a name, time, link or chunk changes on its way through the storage."""
    data = encode(known)
    data.decode("ascii")
    assert decode(data, PARTS) == known


def body(*files: list[Any], chunks: list[list[Any]] | None = None, **more: Any) -> bytes:
    """An index of these files, as a stranger could write it."""
    chunks = [[SHA, 0, 0, 10], ["b" * 64, 0, 90, 10]] if chunks is None else chunks
    found = {"v": 2, "newest": "", "step": None, "stepFrom": "", "chunks": chunks, "files": list(files), **more}
    return json.dumps(found).encode()


def file(path: Any = "a", size: Any = 0, at: Any = 0, mode: Any = 0o644, link: Any = None, *numbers: Any) -> list[Any]:
    return [path, size, at, mode, link, list(numbers), 0]


def test_the_index_of_a_stranger_is_read() -> None:
    """The other tests change one thing of this."""
    known = decode(body(file("a/b", 20, 5, 0o6755, None, 0, 1), file("link", 0, 0, 0, "a/b")), PARTS)
    assert known.content("a/b") == (SHA, "b" * 64)
    assert known.size == 20
    assert known.files["a/b"].file.mode == 0o755  # permissions alone: no program runs as its owner


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/passwd",
        "a/../../x",
        "a//x",
        "a/./x",
        "a/",
        "",
        ".",
        "..",
        "a\0b",
        ".holdfast-1",
        "a/.holdfast-1",
        ".holdfast-1/a",
    ],
)
def test_paths_out_of_the_folder(path: str) -> None:
    with pytest.raises(CheckpointCorruptError, match="outside"):
        decode(body(file(path)), PARTS)


@pytest.mark.parametrize("upper", [file("a"), file("a", link="/etc"), file("a", link="b")])
@pytest.mark.parametrize("path", ["a/x", "a/b/c/x"])
def test_paths_below_a_file_or_a_link(upper: list[Any], path: str) -> None:
    """Breaks if a link of a checkpoint leads what comes after it out of the folder."""
    for files in ([upper, file(path)], [file(path), upper]):
        with pytest.raises(CheckpointCorruptError, match="below a file or a link"):
            decode(body(*files), PARTS)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (body(file("a"), file("a")), "names a file twice"),
        (body(file("a", 0, 0, 0, "b"), file("a")), "names a file twice"),
        (body(chunks=[["", 0, 0, 10]]), "chunk without its hash"),
        (body(chunks=[["a" * 63, 0, 0, 10]]), "chunk without its hash"),
        (body(chunks=[[SHA, 2, 0, 10]]), "does not fit the parts"),
        (body(chunks=[[SHA, 0, 91, 10]]), "does not fit the parts"),
        (body(chunks=[[SHA, 1, 0, 51]]), "does not fit the parts"),
        (body(chunks=[[SHA, 0, -1, 10]]), "not a number from 0 on"),
        (body(chunks=[[SHA, 0, 0, -10]]), "not a number from 0 on"),
        (body(chunks=[[SHA, -1, 0, 10]]), "not a number from 0 on"),
        (body(chunks=[[SHA, True, 0, 10]]), "not a number from 0 on"),
        (body(chunks=[[SHA, 0, 0.0, 10]]), "not a number from 0 on"),
        (body(chunks=[[SHA, 0, 0]]), "cannot be read"),
        (body(file("a", 10, 0, 0, None, 2)), "no bytes of 'a'"),
        (body(file("a", 10, 0, 0, None, -1)), "not a number from 0 on"),
        (body(file("a", 10, 0, 0, None, "0")), "not a number from 0 on"),
        (body(file("a", 11, 0, 0, None, 0)), "not all bytes of 'a'"),
        (body(file("a", 9, 0, 0, None, 0)), "not all bytes of 'a'"),
        (body(file("a", 10)), "not all bytes of 'a'"),
        (body(file("a", 0, 0, 0, "b", 0)), "not all bytes of 'a'"),
        (body(file("a", -1)), "the size -1"),
        (body(file("a", 0, 2**63)), "the time"),
        (body(file("a", 0, -(2**64))), "the time"),
        (body(file("a", "0")), "not whole numbers"),
        (body(file("a", 0, 1.5)), "not whole numbers"),
        (body(file("a", None)), "not whole numbers"),
        (body(["a", 0, 0, 0, None, []]), "cannot be read"),
        (body(["a", 0, 0, 0, None, None, 0]), "cannot be read"),
        (body(step="many"), "cannot be read"),
        (body(step=[]), "cannot be read"),
        (body(v=3), "another version"),
        (body(texts={"../x": "text"}), "outside"),
        (body(file("a", link="b"), texts={"a/x": "text"}), "below a file or a link"),
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b"{}", "cannot be read"),
        (b'{"v": 2}', "cannot be read"),
        (b'{"v": 1, "files": [1]}', "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_no_index(data: bytes, why: str) -> None:
    """Breaks if the checkpoint of a stranger ends the writer with an error of Python, or asks for memory or bytes."""
    with pytest.raises(CheckpointCorruptError, match=why):
        decode(data, PARTS)


def first(*files: list[Any], pointers: list[list[Any]] | None = None, **more: Any) -> bytes:
    """An index of the first form."""
    found = {"v": 1, "name": "a", "layout": "Files", "step": 1, "isFolder": True, "files": list(files)}
    return json.dumps({**found, "pointers": pointers or [], **more}).encode()


def test_the_first_form_is_cut_as_its_writer_cut_it() -> None:
    """Breaks if a file of several parts, or one of many small ones, comes back with the bytes of another one."""
    small, most = (1 << 20) - 1, PART_BYTES // ((1 << 20) - 1)
    files: list[list[Any]] = [
        ["large", PART_BYTES + 7, 0, 0, None],
        ["edge", 1 << 20, 0, 0, None],
        ["empty", 0, 0, 0, None],
    ]
    files += [[f"s{number:03}", small, 0, 0, None] for number in range(most + 1)] + [["link", 0, 0, 0, "edge"]]
    sizes = [PART_BYTES, 7, 1 << 20, most * small, small]  # the small ones share a part, which comes when it is full
    known = decode(first(*files), [Part(f"data/{number}", size, 1, ()) for number, size in enumerate(sizes)])

    def places(path: str) -> list[tuple[int, int, int]]:
        return [known.chunks[number][1:] for number in known.files[path].chunks]

    assert places("large") == [(0, 0, PART_BYTES), (1, 0, 7)]
    assert places("edge") == [(2, 0, 1 << 20)]
    assert places("s000") == [(3, 0, small)]
    assert places("s001") == [(3, small, small)]
    assert places(f"s{most:03}") == [(4, 0, small)]
    assert (places("empty"), places("link"), known.files["link"].file.link) == ([], [], "edge")


@pytest.mark.parametrize(
    "data",
    [
        first(["../x", 0, 0, 0, None]),
        first(["a/x", 10, 0, 0, None]),
        first(["a/x", -1, 0, 0, None]),
        first(["a/x", "1", 0, 0, None]),
        first(["a/x", 0, 0, 0, None], ["a/x", 0, 0, 0, None]),
        first(["a", 0, 0, 0, "/etc"], ["a/x", 0, 0, 0, None]),
        first(pointers=[["../x", False, "a"]]),
        first(pointers=[["../x", True, "a"]]),
        first(pointers=[["a", True, "b"], ["a/x", False, "text"]]),
        first(pointers=[["x"]]),
        first(pointers=[[["x"], True, "a"]]),
        first(step="x"),
        first(["a/x", 0, "x", 0, None], isFolder=False),
        first([["x"], 0, 0, 0, None]),
        first(name=None, files=None),
    ],
)
def test_what_is_no_index_of_the_first_form(data: bytes) -> None:
    with pytest.raises(CheckpointCorruptError):
        decode(data, ())


# Breaks if some bytes of a stranger ask for memory or time without end.
@pytest.mark.parametrize("size", [10**15, 10**30])
def test_a_file_of_the_first_form_without_end(size: int) -> None:
    with pytest.raises(CheckpointCorruptError):
        decode(first(["a/x", size, 0, 0, None]), ())


# Breaks if a file that only nodes without one of their own find may lead out of the folder, or to bytes that are not
# there, because the first node has another one in its place.
@pytest.mark.parametrize("wrong", [["a", 10, 0, 0o644, None, [7], 0], ["a", 11, 0, 0o644, None, [0], 0]])
def test_a_file_that_the_first_node_hides_is_checked(wrong: list[Any]) -> None:
    right = ["a", 10, 0, 0o644, None, [0], 0]
    decode(body(right, nodes=2, own=[[right]]), PARTS)
    with pytest.raises(CheckpointCorruptError):
        decode(body(wrong, nodes=2, own=[[right]]), PARTS)


# Breaks if folders are committed that together are more than any node could be given at the next start: the checkpoint
# would count as a broken one.
def test_folders_that_are_too_much_together(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: Saved(File(name, 10, 0, 0o644), (0,)) for name in ("a", "b")}
    other = {"c": Saved(File("c", 10, 0, 0o644), (0,))}
    known = Index(files, (Chunk(SHA, 0, 0, 10),), PARTS, nodes=2, own=({}, other))
    monkeypatch.setattr(index, "MOST_BYTES", 30)
    monkeypatch.setattr(index, "MOST_FILES", 3)
    check_fits(known)
    assert decode(encode(known), PARTS) == known
    for name, most in (("MOST_BYTES", 29), ("MOST_FILES", 2)):
        with monkeypatch.context() as patch, pytest.raises(TooMuchError):
            patch.setattr(index, name, most)
            check_fits(known)
