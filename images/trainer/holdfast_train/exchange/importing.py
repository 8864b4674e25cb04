"""Import of files of another format as a committed checkpoint, under a prefix that no job owns."""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.commitlog.log import now
from holdfast_train.commitlog.records import IMPORTED_NAMESPACE
from holdfast_train.environment import Identity
from holdfast_train.errors import StateError
from holdfast_train.exchange import safetensors_files, safetensors_layout, torch_files
from holdfast_train.exchange.content import Description
from holdfast_train.format import manifest
from holdfast_train.format.assembly import merge_entries
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.program import IMPORTED, data_facts
from holdfast_train.format.tree import Leaf, Tree, Walk
from holdfast_train.restore.chunk_reader import THREADS
from holdfast_train.restore.lazy_tensors import memory_of
from holdfast_train.save.plan import Plan, make_plan
from holdfast_train.say import say
from holdfast_train.storage import checksums
from holdfast_train.storage.retrying import PATIENCE_SECONDS, RetryingStorage


@dataclass(frozen=True)
class SourceFiles:
    """What was read from files: states of objects by name, and the format.

    The step and the facts about the data (see `program.data_facts`) are those of an export, if it is one.
    """

    objects: Mapping[str, Any]
    form: str
    step: int | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def open_source(path: Path, name: str | None) -> Iterator[SourceFiles]:
    """Read `path`: safetensors (file, index or folder), a folder of DCP, or a file of torch.save. Files may be mapped.

    `name`: of the object. Without it the description of an export names the objects; a mapping of mappings without
    tensors is several objects; anything else is a `model`. StateError if `path` cannot be read.
    """
    if not path.exists():
        raise StateError(f"{path} does not exist")
    if (path / torch_files.METADATA).exists():
        state, description = torch_files.read_dcp(path)
        if description is None:
            yield SourceFiles(_name_objects(path, state, name), "dcp")
        else:
            yield _exported(path, description, state, name, "dcp")
    elif path.is_dir() or path.name.endswith((safetensors_layout.SUFFIX, safetensors_layout.INDEX)):
        with safetensors_files.read(path) as (tensors, description):
            if not tensors and description is None:
                raise StateError(
                    f"{path} has no safetensors files, and is not a folder of torch.distributed.checkpoint"
                )
            if description is None:
                yield SourceFiles({name or "model": tensors}, "safetensors")
            else:
                yield _exported(path, description, tensors, name, "safetensors")
    else:
        yield SourceFiles(_name_objects(path, torch_files.read_torch(path), name), "torch")


def _exported(
    path: Path, description: Description, tensors: Mapping[str, Any], name: str | None, form: str
) -> SourceFiles:
    objects = _rename_object(path, description.objects(tensors), name)
    return SourceFiles(objects, form, description.step, description.facts)


def _name_objects(path: Path, state: Any, name: str | None) -> dict[str, Any]:
    if not isinstance(state, Mapping):
        raise StateError(
            f"{path} contains a {type(state).__name__}; a state is a mapping by name: save what state_dict() of a "
            f"model returns, or several of those in a mapping by the names of the objects"
        )
    if _is_empty(state):
        raise StateError(f"{path} contains a state without entries: save it again from an object that has some")
    if name is None and _is_several(state):
        return {str(key): value for key, value in state.items()}
    return {name or "model": state}


def _is_empty(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_empty, value.values()))


def _is_several(state: Mapping[Any, Any]) -> bool:
    """True if these are the states of several objects, not of one model (tensors) or one optimizer."""
    if {"state", "param_groups"} <= state.keys() or any(hasattr(value, "dtype") for value in state.values()):
        return False
    return any(isinstance(value, Mapping) for value in state.values())


def _rename_object(path: Path, objects: dict[str, Any], name: str | None) -> dict[str, Any]:
    if name is None or list(objects) == [name]:
        return objects
    if len(objects) > 1:
        raise StateError(f"{path} contains {', '.join(objects)}: --name is for a source of one object; leave it out")
    return {name: next(iter(objects.values()))}


def import_checkpoint(
    storage: RetryingStorage, source: SourceFiles, step: int, begin: Callable[[int], Callable[[int], None]]
) -> Saved:
    """Write `source` as the checkpoint of `step`, and commit it. `begin`: see `exporting.export`.

    StoragePrefixInUseError if the prefix has a log, unless it is the log of an interrupted import. StateError if a
    checkpoint cannot contain the state.
    """
    begun = time.monotonic()
    walk = Walk()
    tree: Tree = {"$dict": [["objects", walk.tree(dict(source.objects), "")]]}
    facts = data_facts(source.facts, source.objects) if step else {}  # a training that begins has seen no data
    plan = make_plan(walk.leaves, len(walk.leaves), 0, 1)
    name = CheckpointName.new(step, 1)
    identity = Identity(IMPORTED_NAMESPACE, "import", str(uuid.uuid4()), name.attempt, name.nonce)
    with storage.within(PATIENCE_SECONDS):
        checkpoints = Checkpoints(storage, identity, Keep(), say)
        checkpoints.log.claim()
        parts = _write(storage, name, plan, walk.leaves, begin(plan.size))
        written = Manifest(
            name=name,
            step=step,
            attempt=identity.attempt,
            job_uid=identity.job_uid,
            at=now(),
            versions={},
            program={IMPORTED: source.form, **facts},
            metrics={},
            parts=parts,
            tensors=(*plan.common, *merge_entries([(plan.own_tensors, plan.share)])),
            state=tree,
            ranks=(),
        )
        saved = checkpoints.publish(written, begun)
        checkpoints.sweep()
        checkpoints.hand_over()
    return saved


def _write(
    storage: RetryingStorage, name: CheckpointName, plan: Plan, leaves: list[Leaf], advance: Callable[[int], None]
) -> tuple[Part, ...]:
    """Upload all bytes in parts. Memory is bounded by the parts that are uploaded at once."""

    def put(number: int) -> Part:
        start = number * manifest.PART_BYTES
        data = memoryview(bytearray(min(manifest.PART_BYTES, plan.size - start)))
        for copy in plan.copies:
            low, high = max(copy.at, start), min(copy.at + copy.stop - copy.start, start + len(data))
            if low < high:
                data[low - start : high - start] = _bytes_of(leaves[copy.leaf])[low - copy.at : high - copy.at]
        sums = checksums.chunk_sums(data)
        key = name.part_key(0, number)
        storage.write(key, data, sums=sums)
        advance(len(data))
        return Part(key, len(data), checksums.CHUNK_BYTES, sums)

    count = -(-plan.size // manifest.PART_BYTES)
    with ThreadPoolExecutor(THREADS, "holdfast-put") as pool:
        return tuple(pool.map(put, range(count)))


def _bytes_of(leaf: Leaf) -> bytes | memoryview:
    if leaf.kind == "bytes":
        return memoryview(leaf.value)
    if leaf.kind == "numpy":
        return memory_of(leaf.value, "numpy")
    tensor = leaf.value
    if tensor.device.type == "cpu" and tensor.is_contiguous():
        return memory_of(tensor, "torch")
    copy = tensor.cpu().contiguous()  # must stay alive until its bytes are copied
    return bytes(memory_of(copy, "torch"))
