"""How an exported checkpoint is laid out in safetensors files: which tensor is in which file, and the index. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast_train.exchange.content import DESCRIPTION, Content
from holdfast_train.restore.lazy_tensors import Lazy

SUFFIX: Final = ".safetensors"
INDEX: Final = ".safetensors.index.json"


@dataclass(frozen=True)
class Layout:
    """`files`: tensors by the name of their file. `metadata`: what each file says of itself.

    `index`: name and text of the index; None if there is one file.
    """

    files: Mapping[str, Mapping[str, Lazy]]
    metadata: Mapping[str, str]
    index: tuple[str, str] | None


def lay_out(content: Content, name: str, most: int) -> Layout:
    """One file with this name, or several beside it with an index if it would exceed `most` bytes."""
    groups = list(_groups(content.tensors, most))
    stem = name.removesuffix(SUFFIX)
    # Transformers requires `format`; safetensors.torch.load_model requires the tied names.
    about = {**content.description.tied, DESCRIPTION: content.description.encode()}
    if len(groups) == 1:
        return Layout({name: groups[0]}, {"format": "pt", **about}, None)
    count = len(groups)
    files = {
        f"{stem}-{number:05d}-of-{count:05d}{SUFFIX}": group for number, group in enumerate(groups, 1)
    }  # fmt: skip
    weight_map = {key: file for file, group in files.items() for key in group}
    index = {"metadata": {"total_size": content.size, **about}, "weight_map": weight_map}
    return Layout(files, {"format": "pt"}, (stem + INDEX, json.dumps(index, indent=2) + "\n"))


def _groups(tensors: Mapping[str, Lazy], most: int) -> Iterator[dict[str, Lazy]]:
    """In order, as many tensors in a file as fit. A tensor larger than `most` gets its own file."""
    group: dict[str, Lazy] = {}
    size = 0
    for name, lazy in tensors.items():
        if group and size + lazy.entry.size > most:
            yield group
            group, size = {}, 0
        group[name] = lazy
        size += lazy.entry.size
    yield group
