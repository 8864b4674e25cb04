"""The newest checkpoints in the stores of three runs of a program with `Run`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast_cli.checkpoints.byte_stream import Stream
from holdfast_cli.checkpoints.compare import compare
from holdfast_cli.checkpoints.compare_bytes import same
from holdfast_cli.checkpoints.survey import newest_state
from holdfast_cli.errors import CliError
from holdfast_cli.rehearse.compare.compare_file import compare_contents
from holdfast_cli.rehearse.compare.difference import Effort
from holdfast_cli.rehearse.compare.findings import File, Standing
from holdfast_cli.rehearse.compare.reading import elements
from holdfast_cli.rehearse.compare.reading.pickle_machine import BROKEN
from holdfast_cli.rehearse.compare.reading.source import Memory
from holdfast_cli.rehearse.compare.reading.values import Contents, Pairs, Raw, Tensor, Value, flatten
from holdfast_cli.rehearse.left import Left
from holdfast_train.commitlog.checkpoints import find
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.format.manifest import Manifest
from holdfast_train.format.tree import TensorEntry
from holdfast_train.storage.base import Storage


@dataclass(frozen=True)
class _Newest:
    """The newest checkpoint of a run."""

    storage: Storage
    manifest: Manifest


@dataclass(frozen=True)
class _Shards:
    """The bytes of a tensor: its shards one after another."""

    checkpoint: _Newest
    tensor: TensorEntry

    @property
    def size(self) -> int:
        return self.tensor.size

    def read(self, start: int, length: int) -> bytes:
        stream, found, at = Stream(self.checkpoint.storage, self.checkpoint.manifest), list[bytes](), 0
        try:
            for shard in self.tensor.shards:
                first, last = max(start, at), min(start + length, at + shard.size)
                found += [stream.read(shard.offset + first - at, last - first)] if first < last else []
                at += shard.size
        except HoldfastTrainError as error:
            raise OSError(str(error)) from error
        return b"".join(found)


def compare_stores(reference: Left, again: Left, rehearsed: Left, effort: Effort) -> File:
    """What is found in the newest checkpoint; that of the rehearsed run may be missing, or of another step."""
    path, runs = "the newest checkpoint", (reference, again, rehearsed)
    try:
        first, other, second = (_newest(run) for run in runs)
        if first is None or other is None:
            names = [left.name for left, run in zip(runs, (first, other), strict=False) if run is None]
            note = f"no checkpoint is in the store of: {', '.join(dict.fromkeys(names))}"
            return File(path, Standing.NOT_COMPARED, note=note)
        if first.manifest.step != other.manifest.step:
            note = "those of the undisturbed runs are of different steps"
            return File(path, Standing.NOT_COMPARED, note=note)
        path = f"checkpoint of step {first.manifest.step}"
        if second is None or first.manifest.step != second.manifest.step:
            newest = "no checkpoint" if second is None else f"the newest checkpoint of step {second.manifest.step}"
            note = f"the rehearsed run has {newest}"
            return File(path, Standing.MISSING, is_newest=True, is_state=True, note=note)
        a, b, c = (_contents(run, first) for run in (first, other, second))
        found = compare_contents(path, a, b, c, effort)
    except (HoldfastTrainError, CliError, OSError, *BROKEN) as error:
        return File(path, Standing.NOT_COMPARED, note=str(error) or type(error).__name__)
    return replace(found, is_newest=True, is_state=True, size=first.manifest.size)


def _newest(run: Left) -> _Newest | None:
    if not run.store.keys("log/"):
        return None
    storage = run.store
    commits = newest_state(storage).commits
    if not commits:
        return None
    commit = commits[-1]
    return _Newest(storage, find(storage, commit.name, commit.seq, commit.sha256).manifest)


def _contents(run: _Newest, reference: _Newest) -> Contents:
    """The values of a run, as those of a file."""
    tensors, manifest = _tensors(run, reference), run.manifest

    def understand(node: object) -> object:
        if not isinstance(node, dict):
            return node
        match node:
            case {"$dict": list() as pairs}:
                return Pairs([(key if isinstance(key, str) else json.dumps(key), value) for key, value in pairs])
            case {"$tuple": items}:
                return items
            case {"$tensor": str() as name} if name in tensors:
                return tensors[name]
            case {"$float": str() as text}:
                return float(text)
        return json.dumps(node)

    values: dict[str, Value] = {}
    trees = {"": manifest.state, **{f"@{number}": tree for number, tree in enumerate(manifest.ranks)}}
    for top, tree in trees.items():
        found, note = flatten(tree, understand, top)
        values |= {name.removeprefix("objects."): value for name, value in found.items()}
        if note:  # then all is compared, though not by its place
            values |= {f"(tensor) {name}": tensor for name, tensor in tensors.items()}
            values[f"(tree {top})"] = Raw(Memory(json.dumps(tree).encode()))
    return Contents("checkpoint", values)


def _tensors(run: _Newest, reference: _Newest) -> Mapping[str, Value]:
    """The tensors of a run by their names; those with the bytes of the reference are the reference's."""
    found = {tensor.name: _tensor(run, tensor) for tensor in run.manifest.tensors}
    for before, after in compare(reference.manifest, run.manifest).common if run is not reference else ():
        if same(Stream(reference.storage, reference.manifest), before, Stream(run.storage, run.manifest), after):
            found[after.name] = _tensor(reference, before)
    return found


def _tensor(run: _Newest, tensor: TensorEntry) -> Value:
    source = _Shards(run, tensor)
    if tensor.kind == "bytes":
        return Raw(source)
    if tensor.kind == "torch":
        return Tensor(tensor.dtype, tensor.shape, source)
    return Tensor(elements.of_numpy(tensor.dtype.lstrip("<>|=")), tensor.shape, source, tensor.dtype.startswith(">"))
