"""Files of COCO: boxes on images, one file for each split."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from holdfast_model.census.coco_file import Annotations, read_coco
from holdfast_model.census.errors import DataSetError, DataSetNotFoundError
from holdfast_model.census.identical import Known, add_up, groups
from holdfast_model.census.sample import MOST_NAMED, Begin, Seen
from holdfast_model.census.summary import Boxes, Summary, Twins, in_order

PREFIX: Final = "instances_"
EXPORTED: Final = "_annotations.coco.json"
"""A name that tools for annotation use in the folder of each split."""
MOST_FILES: Final = 100


def coco_files(paths: Sequence[Path], *, is_asked: bool = True) -> list[Path]:
    """The files of COCO that these places are, or that the only place, a folder, has; empty if it is something else.

    `is_asked`: also look into a folder. DataSetError for a file that is missing, or something else among them.
    """
    if all(path.suffix.lower() == ".json" and not path.is_dir() for path in paths):
        for path in paths:
            if not path.exists():
                raise DataSetNotFoundError(f"{path} does not exist; name files of COCO")
            if not path.is_file():
                raise DataSetError(f"{path} is neither a file nor a folder")
        found = list(paths)
    elif len(paths) == 1 and is_asked and paths[0].is_dir():
        root = paths[0]
        patterns = (f"{PREFIX}*.json", f"annotations/{PREFIX}*.json", EXPORTED, f"*/{EXPORTED}")
        found = next((some for one in patterns if (some := sorted(root.glob(one)))), [])
    else:
        return []
    if len(found) > MOST_FILES:
        raise DataSetError(f"{len(found):,} files of COCO; allowed: at most {MOST_FILES}, one for each split")
    return found


def look_at_boxes(place: Path, files: Sequence[Path], images: Path | None, *, hashes: bool, begin: Begin) -> Summary:
    """Count boxes and images. `images`: the folder of the images; otherwise they are looked for near each file.

    DataSetError says what is wrong in which file.
    """
    if images is not None and not images.is_dir():
        raise DataSetNotFoundError(f"{images} is not a folder; name the folder with the images")
    names = _split_names(files)
    found, advance = _Found(), begin("reading", None)
    for split, file in names.items():
        try:
            annotations = read_coco(file)
        except OSError as error:
            raise DataSetError(f"{file} cannot be read: {error.strerror or error}") from error
        found.add(split, annotations, _root(file, images, annotations.images.values()), hashes=hashes)
        advance(len(annotations.boxes))
    if not any(found.images.values()):
        raise DataSetError(f"{place} has no images")
    compared = groups(found.by_size, found.seen, lambda total: begin("comparing", total)) if hashes else iter(())
    twins = add_up(compared) if hashes else Twins()
    order = in_order(list(names))
    shared = found.shared()
    boxes = Boxes(
        {split: found.images[split] for split in order},
        {split: found.empty[split] for split in order},
        {split: dict(found.by_class[split]) for split in order},
        len(shared),
        shared[:MOST_NAMED],
        found.renumbered(),
    )
    counts = {split: dict(found.counts[split]) for split in order}
    where = str(place) if len(files) == 1 or place.is_dir() else ", ".join(map(str, files))
    return Summary(where, "boxes (COCO)", counts, {}, twins, found.seen, boxes)


def _split_names(files: Sequence[Path]) -> dict[str, Path]:
    """Split -> file. A file alone is not a split."""
    if len(files) == 1:
        return {"": files[0]}
    made: dict[str, Path] = {}
    for file in files:
        name = file.absolute().parent.name if file.name == EXPORTED else file.stem.removeprefix(PREFIX)
        if name in made:
            raise DataSetError(f"{made[name]} and {file} are both files of the split {name!r}; name one of them")
        made[name] = file
    return made


def _root(file: Path, images: Path | None, names: Iterable[str]) -> Path | None:
    """The first folder in which one of the first images is; None if the images are not on this machine."""
    folder, split = file.absolute().parent, file.stem.removeprefix(PREFIX)
    bases = [images] if images else [folder, folder / "images", folder.parent, folder.parent / "images"]
    first = [name for name, _ in zip(names, range(MOST_NAMED), strict=False)]
    for base in bases:
        for root in (base, base / split):
            if any(_size(root / name) is not None for name in first):
                return root
    return images


def _size(path: Path) -> int | None:
    """Bytes of a file, None if it is not one."""
    try:
        return path.stat().st_size if path.is_file() else None
    except (OSError, ValueError):  # a name that no file can have
        return None


@dataclass
class _Found:
    """Sums over all files, by split."""

    seen: Seen = field(default_factory=Seen)
    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    by_class: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    images: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)
    by_size: dict[int, list[Known]] = field(default_factory=dict)
    numbers: defaultdict[str, dict[str, Hashable]] = field(default_factory=lambda: defaultdict(dict))
    """Class -> split -> its number."""
    places: defaultdict[str, dict[str, Path | None]] = field(default_factory=lambda: defaultdict(dict))
    """Name of an image -> split -> its file, None if its bytes are not compared."""

    def add(self, split: str, file: Annotations, root: Path | None, *, hashes: bool) -> None:
        """Count one file."""
        for number, name in file.categories.items():
            self.counts[split][name] += 0
            if self.numbers[name].setdefault(split, number) != number:
                self.seen.add("same name", f"{split + ': ' if split else ''}{name}")
        boxes, classes = self._boxes(split, file)
        for key, name in file.images.items():
            self.images[split] += 1
            self.empty[split] += not boxes[key]
            self._image(split, name, root, hashes=hashes)
        for some in classes.values():
            self.by_class[split].update(some)

    def _boxes(self, split: str, file: Annotations) -> tuple[Counter[Hashable], Mapping[Hashable, set[str]]]:
        """Boxes of each image, and its classes."""
        boxes: Counter[Hashable] = Counter()
        classes: defaultdict[Hashable, set[str]] = defaultdict(set)
        for number, box in enumerate(file.boxes):
            place = f"{split + ': ' if split else ''}annotations[{number}]"
            if box.image not in file.images:
                self.seen.add("lost boxes", f"{place}: image {str(box.image)[:40]}")
            elif box.category not in file.categories:
                self.seen.add("lost boxes", f"{place}: category {str(box.category)[:40]}")
            elif not box.is_good:
                self.seen.add("bad boxes", place)
            else:
                name = file.categories[box.category]
                self.counts[split][name] += 1
                boxes[box.image] += 1
                classes[box.image].add(name)
        return boxes, classes

    def _image(self, split: str, name: str, root: Path | None, *, hashes: bool) -> None:
        """Note the name and the size of an image."""
        shown = f"{split + ': ' if split else ''}{name}"
        if split in self.places[name]:
            self.seen.add("listed twice", shown)
            return
        size = None
        if root is None:
            self.seen.add("remote", shown)
        elif (size := _size(root / name)) is None:
            self.seen.add("unreadable", f"{shown}: no such file")
        elif size == 0:
            self.seen.add("empty", shown)
        elif hashes:
            self.by_size.setdefault(size, []).append(Known(split, "", shown, root / name))
        self.places[name][split] = root / name if root is not None and size and hashes else None

    def shared(self) -> list[str]:
        """Names of images in several splits, of which not all bytes are compared."""
        return sorted(name for name, splits in self.places.items() if len(splits) > 1 and None in splits.values())

    def renumbered(self) -> list[str]:
        """Classes that have several numbers, in words."""
        return [
            f"{name} ({', '.join(f'{split}: {str(number)[:20]}' for split, number in numbers.items())})"
            for name, numbers in sorted(self.numbers.items())
            if len(set(numbers.values())) > 1
        ]
