"""What differs between two manifests: names, types and shapes of tensors, and facts such as versions. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast_train.format.manifest import Manifest
from holdfast_train.format.tree import TensorEntry, Tree


@dataclass(frozen=True, slots=True)
class Changed:
    """A value that differs between the two. None: this one does not have it."""

    name: str
    first: str | None
    second: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """`common`: tensors with the same name, type and shape on both sides; their bytes were not compared."""

    added: tuple[TensorEntry, ...]
    removed: tuple[TensorEntry, ...]
    changed: tuple[Changed, ...]
    common: tuple[tuple[TensorEntry, TensorEntry], ...]
    facts: tuple[Changed, ...]


def compare(first: Manifest, second: Manifest) -> Comparison:
    """Compare two manifests."""
    before, after = ({t.name: t for t in found.tensors} for found in (first, second))
    both = [(before[name], after[name]) for name in before if name in after]
    return Comparison(
        added=tuple(after[name] for name in after if name not in before),
        removed=tuple(before[name] for name in before if name not in after),
        changed=tuple(Changed(a.name, kind(a), kind(b)) for a, b in both if kind(a) != kind(b)),
        common=tuple((a, b) for a, b in both if kind(a) == kind(b)),
        facts=tuple(_facts(first, second)),
    )


def kind(tensor: TensorEntry) -> str:
    """`float32 [64, 512]`; a NumPy array has `numpy` before it, and a byte string is `bytes [1000]`."""
    if tensor.kind == "bytes":
        return f"bytes [{tensor.size}]"
    what = tensor.dtype if tensor.kind == "torch" else f"{tensor.kind} {tensor.dtype}"
    return f"{what} [{', '.join(map(str, tensor.shape))}]"


def _facts(first: Manifest, second: Manifest) -> Iterator[Changed]:
    """Facts that differ. Step, attempt and metrics always differ and are left out."""
    yield from _differing(first.versions, second.versions, "versions.")
    yield from _differing(first.program, second.program, "program.")
    if len(first.ranks) != len(second.ranks):
        yield Changed("ranks", str(len(first.ranks)), str(len(second.ranks)))
    if first.job_uid != second.job_uid:
        yield Changed("job UID", first.job_uid, second.job_uid)


def _differing(before: Mapping[str, str], after: Mapping[str, str], prefix: str = "") -> Iterator[Changed]:
    for name in (*before, *(name for name in after if name not in before)):
        if before.get(name) != after.get(name):
            yield Changed(prefix + name, before.get(name), after.get(name))


def plain_values(first: Manifest, second: Manifest) -> list[Changed]:
    """Plain values that differ, by name: a learning rate, a count, a seed."""
    before, after = (dict(_leaves(found)) for found in (first, second))
    return list(_differing(before, after))


def _leaves(found: Manifest) -> Iterator[tuple[str, str]]:
    for name, value in _walk(found.state, ""):
        yield name.removeprefix("/objects").removeprefix("/"), value  # as tensors are named
    for number, tree in enumerate(found.ranks):
        yield from _walk(tree, f"@{number}")


def _walk(tree: Tree, path: str) -> Iterator[tuple[str, str]]:
    """Walk a tree as holdfast_train.format.tree writes it: a dict whose one key begins with $ gives the type."""
    if isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _walk(value, f"{path}/{number}")
    elif not isinstance(tree, dict):
        yield path, repr(tree)
    elif isinstance(pairs := tree.get("$dict"), list):
        for pair in pairs:
            if isinstance(pair, list) and len(pair) == 2:
                yield from _walk(pair[1], f"{path}/{pair[0]}")
    elif isinstance(items := tree.get("$tuple"), list):
        yield from _walk(items, path)
    elif "$tensor" not in tree:
        yield path, ", ".join(str(value) for value in tree.values())
