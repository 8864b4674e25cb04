"""Files of torch.save, and folders of torch.distributed.checkpoint."""

import importlib
import io
import pickle
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.errors import StateError
from holdfast_train.exchange.content import DESCRIPTION, Content, Description, to_tensor
from holdfast_train.restore.lazy_tensors import materialise
from holdfast_train.storage.base import Storage

METADATA: Final = ".metadata"  # every folder of torch.distributed.checkpoint has this file
ALONE: Final = "torch.distributed is disabled"  # the warning that there is one process only, which is intended
_ARRAYS: Final = re.compile(r"numpy\.(_?core\.multiarray\.(_reconstruct|scalar)|ndarray|dtype)")
BESIDE: Final = f"{DESCRIPTION}.json"


def write_torch(
    storage: Storage, found: Found, content: Content, path: Path, advance: Callable[[int], None]
) -> list[Path]:
    """Write the state with torch.save. The whole state is in memory at once; tied tensors stay tied."""
    torch = importlib.import_module("torch")
    arrays = materialise(storage, found.manifest, content.tensors, advance)
    description = Description(
        content.description.step, content.description.names, content.description.tree, content.description.tied
    )
    torch.save(description.value(arrays), path)
    return [path]


def read_torch(path: Path) -> Any:
    """What torch.save wrote. No code in the file is run: StateError names what is refused, and what to do."""
    torch = importlib.import_module("torch")
    try:
        named = torch.serialization.get_unsafe_globals_in_checkpoint(path)
        with torch.serialization.safe_globals(_of_arrays(named)):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        raise StateError(
            f"{path} contains more than tensors and plain values: {_refused(error)}. Loading it would run code from "
            f"the file, so it is refused. If you trust the file, load it with torch.load(..., weights_only=False), "
            f"and torch.save only the state dicts"
        ) from error
    except (OSError, RuntimeError, ValueError, EOFError) as error:
        raise StateError(f"{path} cannot be read as a file of torch.save: {_first_line(error)}") from error


def _of_arrays(named: list[str]) -> list[Any]:
    """The functions in `named` that create NumPy arrays of numbers and strings, and their types: they are safe."""
    known = [name for name in named if _ARRAYS.fullmatch(name)]
    if not known:
        return []
    numpy = importlib.import_module("numpy")
    types = [kind for name, kind in vars(numpy.dtypes).items() if name.endswith("DType")]
    makers = [getattr(importlib.import_module(module), name) for module, _, name in (k.rpartition(".") for k in known)]
    return [bytes, *types, *makers]  # bytes: for an array without elements


def _refused(error: pickle.UnpicklingError) -> str:
    """The name that weights_only refuses."""
    found = re.search(r"GLOBAL (\S+)", str(error))
    return found[1] if found else _first_line(error)


def write_dcp(
    storage: Storage, found: Found, content: Content, path: Path, advance: Callable[[int], None]
) -> list[Path]:
    """Write the folder `path` with torch.distributed.checkpoint. The whole state is in memory at once."""
    dcp = importlib.import_module("torch.distributed.checkpoint")
    arrays = materialise(storage, found.manifest, content.tensors, advance)
    tensors = {
        name: to_tensor(array) if name in content.description.arrays else array for name, array in arrays.items()
    }
    bare = Description(content.description.step, content.description.names, content.description.tree)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ALONE)
            dcp.save(_mappings_and_lists(bare.value(tensors)), checkpoint_id=path, no_dist=True)
    except ValueError as error:  # two paths of keys are the same when they are joined by dots
        raise StateError(f"torch.distributed.checkpoint cannot contain this state: {_first_line(error)}") from error
    (path / BESIDE).write_text(content.description.encode())
    return sorted(path.iterdir())


def _mappings_and_lists(value: Any) -> Any:
    """`value` with lists for tuples: torch.distributed.checkpoint does not find tensors in tuples."""
    if isinstance(value, Mapping):
        return {key: _mappings_and_lists(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mappings_and_lists(item) for item in value]
    return value


def read_dcp(path: Path) -> tuple[Any, Description | None]:
    """The state in a folder: its tensors by name and the description of it, or the whole state without a description.

    Sharded tensors are read as whole ones. Values beside tensors are read without running code in them, but `.metadata`
    itself is a pickle, which torch.distributed.checkpoint loads. StateError if something is refused.
    """
    torch = importlib.import_module("torch")
    dcp = importlib.import_module("torch.distributed.checkpoint")
    planner_of = importlib.import_module("torch.distributed.checkpoint.default_planner").DefaultLoadPlanner
    tensor_metadata = importlib.import_module("torch.distributed.checkpoint.metadata").TensorStorageMetadata

    class Planner(planner_of):  # type: ignore[misc, valid-type]
        def load_bytes(self, read_item: Any, value: io.BytesIO) -> None:
            self.original_state_dict[read_item.dest_index.fqn] = torch.load(value, weights_only=True)

    try:
        metadata = dcp.FileSystemReader(path).read_metadata()
        description = Description.decode((path / BESIDE).read_text()) if (path / BESIDE).exists() else None
        state = {
            name: torch.empty(tuple(about.size), dtype=about.properties.dtype)
            if isinstance(about, tensor_metadata)
            else None
            for name, about in metadata.state_dict_metadata.items()
            if description is None or isinstance(about, tensor_metadata)
        }
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ALONE)
            dcp.load(state, checkpoint_id=path, planner=Planner(flatten_state_dict=False), no_dist=True)
    except (OSError, RuntimeError, ValueError, KeyError, EOFError, pickle.UnpicklingError) as error:
        raise StateError(f"{path} cannot be read by torch.distributed.checkpoint: {_first_line(error)}") from error
    except dcp.CheckpointException as error:
        causes = [
            f"it contains {_refused(cause)}, which is refused: loading it may run code from the folder"
            if isinstance(cause, pickle.UnpicklingError)
            else _first_line(cause)
            for cause, _ in error.failures.values()
        ]
        raise StateError(f"{path} cannot be read by torch.distributed.checkpoint: {'; '.join(causes)}") from error
    if description is not None:
        return state, description
    return _nested(state, metadata.planner_data or {}), None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _nested(flat: Mapping[str, Any], paths: Mapping[str, tuple[Any, ...]]) -> Any:
    """`flat` as the nested value that it was. In `paths`, keys of mappings are strings and keys of lists numbers."""
    tree: dict[Any, Any] = {}
    for name, value in flat.items():
        at = tree
        *above, last = paths.get(name, (name,))
        for key in above:
            at = at.setdefault(key, {})
        at[last] = value
    return _with_lists(tree)


def _with_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(key, int) for key in value):
        return [_with_lists(value[key]) for key in sorted(value)]
    return {key: _with_lists(item) for key, item in value.items()}
