"""One file of COCO: images, categories, and annotations with boxes. Nothing in it is trusted."""

import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast_model.census.errors import DataSetError
from holdfast_model.census.manifest import text_of

MOST_BYTES: Final = 1 << 30
"""COCO of 2017 has 0.45 GB. The text is in memory at once."""
MOST_BOXES: Final = 20_000_000
MOST_CLASSES: Final = 10_000
LARGEST: Final = 1e9
"""Pixels: a box beyond this is a mistake, or no number."""
LONGEST_NAME: Final = 4096
LISTS: Final = ("images", "annotations", "categories")
# Fields that are looked at. The others, such as outlines and keypoints, are most of a file, and are dropped on the way.
KEPT: Final = frozenset((*LISTS, "id", "name", "file_name", "image_id", "category_id", "bbox"))


@dataclass(frozen=True, slots=True)
class Box:
    """One annotation. `image`, `category`: their ids. `is_good`: it has four numbers, and an area."""

    image: Hashable
    category: Hashable
    is_good: bool


@dataclass(frozen=True, slots=True)
class Annotations:
    """A file. `images`: id -> name of the file. `categories`: id -> name."""

    images: Mapping[Hashable, str]
    categories: Mapping[Hashable, str]
    boxes: list[Box]


def read_coco(path: Path) -> Annotations:
    """Read and check a file. DataSetError names the first field that is wrong; OSError if it cannot be read."""
    found = _parsed(path)
    if not isinstance(found, dict) or not all(isinstance(found.get(name), list) for name in LISTS):
        raise DataSetError(
            f"{path} is not a file of COCO: expected an object with the lists images, annotations and categories"
        )
    images, annotations, categories = (found[name] for name in LISTS)
    for name, entries, most in (("annotations", annotations, MOST_BOXES), ("categories", categories, MOST_CLASSES)):
        if len(entries) > most:
            raise DataSetError(f"{path} has {len(entries):,} {name}; allowed: at most {most:,}")
    return Annotations(
        _by_id(path, "images", images, "file_name"),
        {key: text_of(name) for key, name in _by_id(path, "categories", categories, "name").items()},
        list(_boxes(path, annotations)),
    )


def _parsed(path: Path) -> Any:
    with path.open("rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise DataSetError(f"{path} has over {MOST_BYTES >> 20:,} MiB; look at a part of it")
    try:
        return json.loads(text.removeprefix(b"\xef\xbb\xbf"), object_hook=_kept)
    except (ValueError, RecursionError) as error:
        raise DataSetError(f"{path} is not JSON, or was cut off: {error}") from error


def _kept(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in entry.keys() & KEPT}


def _by_id(path: Path, name: str, entries: list[Any], field: str) -> dict[Hashable, str]:
    """id -> the text in `field`."""
    made: dict[Hashable, str] = {}
    for place, entry in _objects(path, name, entries):
        key = _id(place, entry, "id")
        if key in made:
            raise DataSetError(f"{place}.id {_short(key)} is a duplicate; use each id once")
        text = entry.get(field)
        if not isinstance(text, str) or not text.strip() or len(text) > LONGEST_NAME:
            raise DataSetError(
                f"{place}.{field} is {_short(text)}; allowed: a text of 1 to {LONGEST_NAME:,} characters"
            )
        made[key] = text
    return made


def _boxes(path: Path, entries: list[Any]) -> Iterator[Box]:
    for place, entry in _objects(path, "annotations", entries):
        image, category = _id(place, entry, "image_id"), _id(place, entry, "category_id")
        yield Box(image, category, _is_box(entry.get("bbox")))


def _objects(path: Path, name: str, entries: list[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, entry in enumerate(entries):
        place = f"{path}: {name}[{number}]"
        if not isinstance(entry, dict):
            raise DataSetError(f"{place} is {_short(entry)}; allowed: an object")
        yield place, entry


def _id(place: str, entry: Mapping[str, Any], field: str) -> Hashable:
    found = entry.get(field)
    if type(found) is int or (isinstance(found, str) and len(found) <= LONGEST_NAME):
        return found
    said = "missing" if field not in entry else _short(found)
    raise DataSetError(f"{place}.{field} is {said}; allowed: a whole number, or a text")


def _is_box(found: Any) -> bool:
    """True for x, y, width and height, of which the last two are more than 0."""
    if not isinstance(found, list) or len(found) != 4:
        return False
    numbers = all(type(one) in (int, float) and -LARGEST < one < LARGEST for one in found)
    return numbers and found[2] > 0 and found[3] > 0


def _short(value: object) -> str:
    return repr(value)[:60] if not isinstance(value, dict | list) else f"{type(value).__name__} of {len(value):,}"
