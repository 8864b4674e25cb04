"""Safetensors: one file, or several files and an index, in the layout of Hugging Face."""

import contextlib
import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.errors import StateError
from holdfast_train.exchange import safetensors_writer
from holdfast_train.exchange.content import DESCRIPTION, Content, Description
from holdfast_train.exchange.safetensors_layout import INDEX, SUFFIX, lay_out
from holdfast_train.exchange.safetensors_types import form_of
from holdfast_train.storage.base import Storage


def _library() -> Any:
    try:
        return importlib.import_module("safetensors"), importlib.import_module("safetensors.torch")
    except ImportError as error:
        raise StateError(
            f"the package safetensors is missing ({error}); install it: pip install safetensors, or holdfast-train "
            f"with its extra `torch`"
        ) from error


def write(
    storage: Storage, found: Found, content: Content, path: Path, *, most: int, advance: Callable[[int], None]
) -> list[Path]:
    """Write `path` (model.safetensors), or several files beside it with an index if it would exceed `most` bytes.

    It needs neither torch nor NumPy. StateError names a tensor whose type the format lacks, before a file is written.
    """
    for name, lazy in content.tensors.items():
        form_of(name, lazy)
    layout = lay_out(content, path.name, most)
    files = [path.with_name(name) for name in layout.files]
    for file, tensors in zip(files, layout.files.values(), strict=True):
        safetensors_writer.write(storage, found.manifest, tensors, file, metadata=layout.metadata, advance=advance)
    if layout.index is not None:
        name, text = layout.index
        files.append(path.with_name(name))
        files[-1].write_text(text, encoding="utf-8")
    return files


@contextlib.contextmanager
def read(path: Path) -> Iterator[tuple[dict[str, Any], Description | None]]:
    """The mapped tensors of a file, of an index or of a folder, and the description if there is one.

    StateError if they cannot be read.
    """
    library, _ = _library()
    files, about = _files(path)
    tensors: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        for file in files:
            try:
                opened = stack.enter_context(library.safe_open(file, framework="pt"))
            except (OSError, library.SafetensorError) as error:
                raise StateError(f"{file} cannot be read as safetensors: {error}") from error
            about |= opened.metadata() or {}
            for name in opened.keys():  # noqa: SIM118 - it is not a mapping
                if name in tensors:
                    raise StateError(
                        f"{name} is in {file} and in another file of {path}; import one file, or the index"
                    )
                tensors[name] = opened.get_tensor(name)
        description = Description.decode(about[DESCRIPTION]) if DESCRIPTION in about else None
        if description is None:  # by safetensors.torch.save_model: names of tied tensors
            tensors |= {name: tensors[kept] for name, kept in about.items() if kept in tensors and name not in tensors}
        yield tensors, description


def _files(path: Path) -> tuple[list[Path], dict[str, str]]:
    if path.is_dir():
        indexes = sorted(path.glob(f"*{INDEX}"))
        if len(indexes) > 1:
            raise StateError(f"{path} has {len(indexes)} indexes; import one: {', '.join(map(str, indexes))}")
        if not indexes:
            return sorted(path.glob(f"*{SUFFIX}")), {}
        path = indexes[0]
    if not path.name.endswith(INDEX):
        return [path], {}
    try:
        index = json.loads(path.read_text())
        names = sorted(set(index["weight_map"].values()))
        about = {key: value for key, value in index.get("metadata", {}).items() if isinstance(value, str)}
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise StateError(f"{path} is not an index of safetensors files: {error!r}") from error
    for name in names:
        if not (path.parent / name).is_file():
            raise StateError(f"{path} names {name}, which is not in the same folder")
    return [path.parent / name for name in names], about
