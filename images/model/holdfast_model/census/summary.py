"""What a data set adds up to, and what is wrong with it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast_model.census.sample import Seen

ORDER: Final = ("train", "training", "val", "valid", "validation", "dev", "test", "testing")
MOST_LISTED: Final = 10
_BOX_WORDS: Final = {
    "lost boxes": ("box is", "boxes are", "not counted, because the file does not list the image or the category"),
    "bad boxes": ("box is", "boxes are", "not counted: a box is x, y, width and height, the last two more than 0"),
    "same name": ("category has", "categories have", "the name of another one of the file, and is counted with it"),
}


@dataclass(frozen=True)
class Twins:
    """Groups of samples with the same bytes. A group may be in several of these.

    `within`: samples that another one of their split repeats. `across`: groups in several splits. `conflicts`: groups
    with several labels. `examples`: names of some groups, those across splits first.
    """

    within: int = 0
    across: int = 0
    conflicts: int = 0
    examples: Sequence[tuple[str, Sequence[str]]] = ()


@dataclass(frozen=True)
class Boxes:
    """Of a data set whose samples are boxes on images. `images`, `empty`: split -> images, and those without a box.

    `by_class`: split -> class -> images with a box of it. `same_name`: names of images that several splits have and
    whose bytes are not compared; `first_names`: some of them. `renumbered`: classes whose number differs, in words.
    """

    images: Mapping[str, int]
    empty: Mapping[str, int]
    by_class: Mapping[str, Mapping[str, int]]
    same_name: int = 0
    first_names: Sequence[str] = ()
    renumbered: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "images": sum(self.images.values()),
            "splits": {
                split: {"images": count, "withoutBoxes": self.empty[split], "classes": dict(self.by_class[split])}
                for split, count in self.images.items()
            },
            "sameName": {"count": self.same_name, "first": list(self.first_names)},
            "renumbered": list(self.renumbered),
        }


@dataclass(frozen=True)
class Summary:
    """`counts`: split -> class -> samples; the split is empty if the source has none. `unlabelled`: by split.

    With `boxes` a sample is a box, and `twins` are images.
    """

    place: str
    layout: str
    counts: Mapping[str, Mapping[str, int]]
    unlabelled: Mapping[str, int]
    twins: Twins
    seen: Seen
    boxes: Boxes | None = None

    @property
    def unit(self) -> tuple[str, str]:
        """What is counted by class: one, and several."""
        return ("box", "boxes") if self.boxes else ("sample", "samples")

    @property
    def classes(self) -> list[str]:
        """The most frequent first."""
        total = self.totals()
        return sorted(total, key=lambda name: (-total[name], name))

    def totals(self) -> dict[str, int]:
        """Samples of each class, over all splits."""
        total: dict[str, int] = {}
        for one in self.counts.values():
            for name, count in one.items():
                total[name] = total.get(name, 0) + count
        return total

    @property
    def samples(self) -> int:
        """Labelled or not."""
        return sum(self.totals().values()) + sum(self.unlabelled.values())

    def missing(self) -> dict[str, list[str]]:
        """Split -> classes that another split has, or that have a folder, and that it has no sample of.

        A split without any label is not asked for classes: it is unlabelled.
        """
        every = sorted(self.totals())
        found = {
            split: [name for name in every if not one.get(name)]
            for split, one in self.counts.items()
            if any(one.values())
        }
        return {split: names for split, names in found.items() if names}

    def wrong(self) -> Iterator[str]:
        """Each thing that makes a result of a training doubtful, in words."""
        if self.twins.across:
            whole = "image" if self.boxes else "sample"
            yield (
                f"{_many(self.twins.across, whole)} in more than one split: a test on what was learned by heart "
                "is too good; remove them from one of the splits"
            )
        for split, names in self.missing().items():
            where = f"split {split!r}" if split else "the data set"
            yield f"{where} has no {self.unit[0]} of {_many(len(names), 'class', 'classes')}: {_some(names)}"
        if self.twins.conflicts:
            yield f"{_many(self.twins.conflicts, 'sample')} with more than one label: decide which one is right"
        if count := self.seen.counts.get("unreadable"):
            first = _some(self.seen.names["unreadable"], count)
            yield f"{_many(count, 'file or folder', 'files or folders')} cannot be read: {first}"
        if self.boxes:
            yield from self._wrong_boxes(self.boxes)

    def _wrong_boxes(self, boxes: Boxes) -> Iterator[str]:
        if boxes.same_name:
            yield (
                f"{_many(boxes.same_name, 'name')} of images in more than one split: "
                f"{_some(boxes.first_names, boxes.same_name)}; if they are the same images, remove them from one of "
                "the splits"
            )
        if boxes.renumbered:
            yield (
                f"{_many(len(boxes.renumbered), 'class has', 'classes have')} another number in another split: "
                f"{_some(boxes.renumbered)}; a program that learns numbers confuses them"
            )
        for kind, (one, several, text) in _BOX_WORDS.items():
            if count := self.seen.counts.get(kind):
                yield f"{_many(count, one, several)} {text}: {_some(self.seen.names[kind], count)}"

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        totals = self.totals()
        boxes = {"boxes": self.boxes.as_json()} if self.boxes else {}
        return {
            "v": 1,
            "data": self.place,
            "layout": self.layout,
            "samples": self.samples,
            "classes": len(totals),
            "evenness": _rounded(evenness(totals)),
            "splits": {
                split: {
                    "samples": sum(one.values()) + self.unlabelled.get(split, 0),
                    "unlabelled": self.unlabelled.get(split, 0),
                    "evenness": _rounded(evenness({name: one.get(name, 0) for name in totals})),
                    "missing": self.missing().get(split, []),
                    "classes": {name: one.get(name, 0) for name in self.classes},
                }
                for split, one in self.counts.items()
            },
            "identical": {
                "within": self.twins.within,
                "across": self.twins.across,
                "conflicts": self.twins.conflicts,
                "examples": [{"kind": kind, "samples": list(names)} for kind, names in self.twins.examples],
            },
            "seen": {
                kind: {"count": count, "first": self.seen.names.get(kind, [])}
                for kind, count in sorted(self.seen.counts.items())
            },
            **boxes,
            "wrong": list(self.wrong()),
        }


def evenness(counts: Mapping[str, int]) -> float | None:
    """The entropy over its most: 1 if all classes have as many samples, 0 if one has all. None for one class alone."""
    total = sum(counts.values())
    if len(counts) < 2 or not total:
        return None
    shares = [count / total for count in counts.values() if count]
    return abs(sum(share * math.log(share) for share in shares)) / math.log(len(counts))


def in_order(splits: Sequence[str]) -> list[str]:
    """Training first, then validation, test, and the others."""
    place = {name: number for number, name in enumerate(ORDER)}
    return sorted(splits, key=lambda split: (place.get(split.lower(), len(ORDER)), split))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _many(count: int, one: str, several: str = "") -> str:
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def _some(names: Sequence[str], count: int | None = None) -> str:
    more = (len(names) if count is None else count) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")
