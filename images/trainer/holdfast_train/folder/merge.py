"""One index of the folders of several nodes. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from holdfast_train.folder.index import Chunk, Index, Saved, above, clear_of
from holdfast_train.folder.newest import is_in
from holdfast_train.format.manifest import Part


def merged(shares: Sequence[Index | None]) -> Index:
    """The index of a commit to which each node gives one of `shares`. At least one of them is not None.

    None: the node has no folder of its own, because it shares the volume of another one. Bytes that several nodes have
    uploaded are taken from the first one. The newest save, and its step, are those of the lowest node that has one.
    """
    given = [one for one in shares if one is not None]
    if len(shares) == 1:
        return given[0]
    places: dict[str, tuple[str, int, int]] = {}
    for share in given:
        for chunk in share.chunks:
            places.setdefault(chunk.sha256, (share.parts[chunk.part].key, chunk.start, chunk.size))
    parts, chunks, numbers = _laid_out(places, chain.from_iterable(share.parts for share in given))
    of_nodes = [None if share is None else _renumbered(share, numbers) for share in shares]
    files: dict[str, Saved] = {}
    folders: set[str] = set()
    for found in of_nodes:
        # A node may have a file or a link in the place of a folder of a lower one: that is its own.
        fit = [p for p in found or {} if p not in folders and not any(folder in files for folder in above(p))]
        files = {path: (found or {})[path] for path in fit} | files
        folders.update(folder for path in fit for folder in above(path))
    files = dict(sorted(files.items()))
    own = [_differing(found or {}, files) for found in of_nodes]
    is_fixed = any(
        share.newest and is_in(path, share.newest)
        for share, found in zip(shares, own, strict=True)
        if share is not None
        for path in found
    )
    named = next((share for share in given if share.newest), given[0])
    empty = {path for share in given for path in share.empty}
    return Index(
        files,
        chunks,
        parts,
        named.newest,
        named.step,
        named.step_from,
        empty=tuple(sorted(clear_of(files, empty))),
        nodes=len(shares),
        own=tuple(own) if any(own) else (),
        is_fixed=is_fixed,
        owners=_owners(files, of_nodes),
        is_beside=all(share.is_beside for share in given),
    )


def _owners(files: Mapping[str, Saved], of_nodes: Sequence[Mapping[str, Saved] | None]) -> dict[str, tuple[int, ...]]:
    found = {path: tuple(rank for rank, has in enumerate(of_nodes) if has and path in has) for path in files}
    return {path: ranks for path, ranks in found.items() if len(ranks) < len(of_nodes)}


def _laid_out(
    places: Mapping[str, tuple[str, int, int]], parts: Iterator[Part]
) -> tuple[tuple[Part, ...], tuple[Chunk, ...], dict[str, int]]:
    """The parts that have chunks, the chunks, and the number of each."""
    needed = {key for key, _, _ in places.values()}
    kept = {part.key: part for part in parts if part.key in needed}
    number_of = {key: number for number, key in enumerate(kept)}
    wanted = sorted(places)
    chunks = tuple(Chunk(sha256, number_of[places[sha256][0]], *places[sha256][1:]) for sha256 in wanted)
    return tuple(kept.values()), chunks, {sha256: number for number, sha256 in enumerate(wanted)}


def _renumbered(share: Index, numbers: Mapping[str, int]) -> dict[str, Saved]:
    return {
        path: replace(saved, chunks=tuple(numbers[sha256] for sha256 in share.content(path)))
        for path, saved in share.files.items()
    }


def _differing(own: Mapping[str, Saved], files: Mapping[str, Saved]) -> dict[str, Saved]:
    """Of one node: the files with other bytes, and the links to other places. Times and permissions do not count."""
    return {
        path: saved
        for path, saved in own.items()
        if path not in files or (saved.chunks, saved.file.link) != (files[path].chunks, files[path].file.link)
    }


def of_node(known: Index, node: int, files: Sequence[str], empty: tuple[str, ...]) -> Index:
    """What the node has of the commit `known` in its own folder, in which it had these `files` and `empty` folders."""
    view = known.view(node)
    kept = {path: view.files[path] for path in files if path in view.files}
    return replace(view, files=kept, empty=empty, is_beside=False)
