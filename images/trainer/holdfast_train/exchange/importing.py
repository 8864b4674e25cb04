"""From files of another format to a committed checkpoint, under a prefix that no job owns."""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.commitlog.log import now
from holdfast_train.commitlog.records import IMPORTED_NAMESPACE, Keep
from holdfast_train.environment import Identity
from holdfast_train.errors import StateError
from holdfast_train.exchange import safetensors_files, torch_files
from holdfast_train.format import manifest
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import part_key
from holdfast_train.format.program import IMPORTED
from holdfast_train.format.tree import Leaf, Tree, Walk
from holdfast_train.restore.chunk_reader import THREADS
from holdfast_train.restore.lazy_tensors import memory_of
from holdfast_train.restore.source import PATIENCE
from holdfast_train.save.plan import Plan, plan
from holdfast_train.say import say
from holdfast_train.storage import checksums
from holdfast_train.storage.retrying import Patient

__all__ = ["Loaded", "into_storage", "opened"]


@dataclass(frozen=True)
class Loaded:
    """What a source holds: states of objects by name. `step` and `form`: None and the format if it does not say."""

    objects: Mapping[str, Any]
    form: str
    step: int | None


@contextlib.contextmanager
def opened(path: Path, name: str | None) -> Iterator[Loaded]:
    """What is at `path`: safetensors (file, index, folder), a folder of DCP, a file of torch.save. Files may be mapped.

    `name`: what to call the object that it is. Else an export of ours says that, a mapping that holds mappings and no
    tensors is several objects, and what is left is a `model`. StateError if it cannot be read.
    """
    if not path.exists():
        raise StateError(f"{path} does not exist")
    if (path / torch_files.METADATA).exists():
        state, description = torch_files.read_dcp(path)
        objects = _named(path, state, name) if description is None else _renamed(path, description.objects(state), name)
        yield Loaded(objects, "dcp", None if description is None else description.step)
    elif path.is_dir() or path.name.endswith((safetensors_files.SUFFIX, safetensors_files.INDEX)):
        with safetensors_files.read(path) as (tensors, description):
            if not tensors and description is None:
                raise StateError(f"{path} holds no safetensors files, and is no folder of torch.distributed.checkpoint")
            objects = (
                {name or "model": tensors}
                if description is None
                else _renamed(path, description.objects(tensors), name)
            )
            yield Loaded(objects, "safetensors", None if description is None else description.step)
    else:
        yield Loaded(_named(path, torch_files.read_torch(path), name), "torch", None)


def _named(path: Path, state: Any, name: str | None) -> dict[str, Any]:
    if not isinstance(state, Mapping):
        raise StateError(
            f"{path} holds a {type(state).__name__}, and not the state of anything, which is a mapping by name: "
            f"save what state_dict() of a model gives, or several of those by the names of the objects"
        )
    if _is_empty(state):
        raise StateError(f"{path} holds a state without any entry: save it once more from an object that has some")
    if name is None and _is_several(state):
        return {str(key): value for key, value in state.items()}
    return {name or "model": state}


def _is_empty(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_empty, value.values()))


def _is_several(state: Mapping[Any, Any]) -> bool:
    """Are these states of objects, and not the state of one: of a model (tensors), of an optimizer?"""
    if {"state", "param_groups"} <= state.keys() or any(hasattr(value, "dtype") for value in state.values()):
        return False
    return any(isinstance(value, Mapping) for value in state.values())


def _renamed(path: Path, objects: dict[str, Any], name: str | None) -> dict[str, Any]:
    if name is None or list(objects) == [name]:
        return objects
    if len(objects) > 1:
        raise StateError(f"{path} holds {', '.join(objects)}: --name is for a source of one object; leave it out")
    return {name: next(iter(objects.values()))}


def into_storage(storage: Patient, loaded: Loaded, step: int, begin: Callable[[int], Callable[[int], None]]) -> Saved:
    """Write `loaded` as the checkpoint of `step`, and commit it. `begin`: see `exporting.export`.

    StoragePrefixInUseError if the prefix has a log, unless that is of an import that was cut off. StateError, if a
    checkpoint cannot hold what is there.
    """
    begun = time.monotonic()
    walk = Walk()
    tree: Tree = {"$dict": [["objects", walk.tree(dict(loaded.objects), "")]]}
    made = plan(walk.leaves, len(walk.leaves), 0, 1)
    nonce = uuid.uuid4().hex[:12]
    who = Identity(IMPORTED_NAMESPACE, "import", str(uuid.uuid4()), 1, nonce)
    with storage.within(PATIENCE):
        checkpoints = Checkpoints(storage, who, Keep(), say)
        checkpoints.log.claim()
        name = f"{step:012d}-a{who.attempt}-{nonce}"
        parts = _write(storage, name, made, walk.leaves, begin(made.size))
        written = Manifest(
            name=name,
            step=step,
            attempt=who.attempt,
            job_uid=who.job_uid,
            at=now(),
            versions={},
            program={IMPORTED: loaded.form},
            metrics={},
            parts=parts,
            tensors=made.common,
            state=tree,
            ranks=(),
        )
        saved = checkpoints.publish(written, begun)
        checkpoints.sweep()
        checkpoints.hand_over()
    return saved


def _write(
    storage: Patient, name: str, made: Plan, leaves: list[Leaf], advance: Callable[[int], None]
) -> tuple[Part, ...]:
    """Upload all bytes in parts, some at once; memory is bounded by those."""

    def put(number: int) -> Part:
        start = number * manifest.PART_BYTES
        data = memoryview(bytearray(min(manifest.PART_BYTES, made.size - start)))
        for copy in made.copies:
            low, high = max(copy.at, start), min(copy.at + copy.stop - copy.start, start + len(data))
            if low < high:
                data[low - start : high - start] = _bytes_of(leaves[copy.leaf])[low - copy.at : high - copy.at]
        sums = checksums.chunk_sums(data)
        key = part_key(name, 0, number)
        storage.write(key, data, sums=sums)
        advance(len(data))
        return Part(key, len(data), checksums.CHUNK_BYTES, sums)

    count = -(-made.size // manifest.PART_BYTES)
    with ThreadPoolExecutor(THREADS, "holdfast-put") as pool:
        return tuple(pool.map(put, range(count)))


def _bytes_of(leaf: Leaf) -> bytes | memoryview:
    if leaf.kind == "numpy":
        return memory_of(leaf.value, "numpy")
    tensor = leaf.value
    if tensor.device.type == "cpu" and tensor.is_contiguous():
        return memory_of(tensor, "torch")
    copy = tensor.cpu().contiguous()  # has to live until its bytes are copied
    return bytes(memory_of(copy, "torch"))
