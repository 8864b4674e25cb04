"""The summary of a data set as a page."""

from collections.abc import Mapping
from typing import Final

from holdfast_model.census.summary import Summary, evenness
from holdfast_model.pages.document import document
from holdfast_model.pages.drawings import bar
from holdfast_model.pages.fragments import Figure, table
from holdfast_model.pages.template import Markup, Template

MOST_CLASSES: Final = 200
_HTML: Final = Template(__name__)
NOTES: Final = {
    "bad boxes": "boxes without an area, or not of four numbers, which are not counted",
    "empty": "files without a byte",
    "hidden": "hidden files, which are not counted",
    "linked folders": "links to folders, which are not followed",
    "links": "links to files, which are counted as files",
    "listed twice": "samples that the list has twice, with the same split and label",
    "lost boxes": "boxes of images or categories that the file does not list, which are not counted",
    "remote": "samples whose files are not on this machine; they are not compared",
    "same name": "categories with the name of another one of the file",
    "special": "devices, pipes and sockets, which are not counted",
    "unreadable": "files or folders that cannot be read",
}


def as_page(summary: Summary) -> str:
    """One HTML file."""
    totals = summary.totals()
    return document(
        f"Data set {summary.place}",
        [_heading(summary), _splits(summary), _classes(summary, totals), _twins(summary), _seen(summary)],
    )


def split_name(split: str) -> str:
    """For people."""
    return split or "all"


def _heading(summary: Summary) -> Markup:
    totals = summary.totals()
    found = [
        *_counted(summary),
        Figure("classes", f"{len(totals):,}"),
        Figure("evenness", _share(evenness(totals)), f"100% if all classes have as many {summary.unit[1]}"),
    ]
    if totals and (classes := summary.classes):
        largest, smallest = classes[0], classes[-1]
        found += [
            Figure("largest class", f"{totals[largest]:,}", largest[:60]),
            Figure("smallest class", f"{totals[smallest]:,}", smallest[:60]),
        ]
    whole = "images" if summary.boxes else "samples"
    found.append(Figure("in more than one split", f"{summary.twins.across:,}", f"{whole} with the same bytes"))
    lead = f"{summary.place}, read as {summary.layout}"
    return _HTML.heading(lead=lead, wrong=list(summary.wrong()), found=found)


def _counted(summary: Summary) -> list[Figure]:
    if summary.boxes is None:
        return [Figure("samples", f"{summary.samples:,}", _unlabelled(summary))]
    images, empty = sum(summary.boxes.images.values()), sum(summary.boxes.empty.values())
    each = f"{summary.samples / images:.1f} for each image" if images else ""
    return [
        Figure("images", f"{images:,}", f"{empty:,} without a box" if empty else "all have a box"),
        Figure("boxes", f"{summary.samples:,}", each),
    ]


def _unlabelled(summary: Summary) -> str:
    count = sum(summary.unlabelled.values())
    return f"{count:,} without a label" if count else "all have a label"


def _splits(summary: Summary) -> Markup:
    names, missing, rows = list(summary.totals()), summary.missing(), []
    for split, one in summary.counts.items():
        counts = {name: one.get(name, 0) for name in names}
        there = [name for name in counts if counts[name]]
        least, most = (
            (min(reversed(there), key=counts.__getitem__), max(there, key=counts.__getitem__)) if there else ("", "")
        )
        rows.append([
            split_name(split), *_numbers(summary, split, sum(counts.values())),
            f"{len(there):,}", f"{len(missing.get(split, [])):,}", _share(evenness(counts)),
            f"{most[:30]}: {counts[most]:,}" if there else "", f"{least[:30]}: {counts[least]:,}" if there else "",
        ])  # fmt: skip
    counted = ["images", "without a box", "boxes"] if summary.boxes else ["samples", "no label"]
    columns = ["split", *counted, "classes", "missing classes", "evenness", "largest", "smallest"]
    return _HTML.splits(table(columns, rows))


def _numbers(summary: Summary, split: str, labelled: int) -> list[str]:
    if summary.boxes is None:
        without = summary.unlabelled.get(split, 0)
        return [f"{labelled + without:,}", f"{without:,}"]
    return [f"{summary.boxes.images[split]:,}", f"{summary.boxes.empty[split]:,}", f"{labelled:,}"]


def _classes(summary: Summary, totals: Mapping[str, int]) -> Markup:
    classes, splits = summary.classes, list(summary.counts)
    if not classes:
        return Markup()
    shown = classes if len(classes) <= MOST_CLASSES else [*classes[: MOST_CLASSES // 2], *classes[-MOST_CLASSES // 2 :]]
    most = max(totals.values()) or 1
    rows = [
        [name, bar(totals[name] / most), f"{totals[name]:,}", *_images_with(summary, name),
         *([_count(summary.counts[split].get(name, 0)) for split in splits] if len(splits) > 1 else [])]
        for name in shown
    ]  # fmt: skip
    units, before = (["boxes", "images"], "boxes, ") if summary.boxes else (["samples"], "")
    columns = ["class", "", *units, *([f"{before}{split_name(split)}" for split in splits] if len(splits) > 1 else [])]
    left = len(classes) - len(shown)
    left_out = f"{left:,} classes in the middle are not shown; --json has all." if left else ""
    return _HTML.classes(found=table(columns, rows, left=2), left_out=left_out)


def _images_with(summary: Summary, name: str) -> list[str]:
    if summary.boxes is None:
        return []
    return [f"{sum(one.get(name, 0) for one in summary.boxes.by_class.values()):,}"]


def _count(count: int) -> str:
    return f"{count:,}" if count else _HTML.zero()


def _twins(summary: Summary) -> Markup:
    if not summary.twins.examples:
        return Markup()
    rows = [[kind, ", ".join(names)] for kind, names in summary.twins.examples]
    conflicts = "" if summary.boxes else f"With different labels: {summary.twins.conflicts:,}. "
    text = f"Across splits: {summary.twins.across:,}. {conflicts}Repeated within a split: {summary.twins.within:,}."
    whole = "images" if summary.boxes else "samples"
    heading = f"{whole.capitalize()} with the same bytes"
    return _HTML.twins(heading=heading, text=text, found=table(["where", whole], rows, left=2))


def _seen(summary: Summary) -> Markup:
    rows = [
        [NOTES[kind], f"{count:,}", ", ".join(summary.seen.names.get(kind, [])[:5])]
        for kind, count in sorted(summary.seen.counts.items())
    ]
    return _HTML.seen(table(["what", "number", "first ones"], rows, left=3)) if rows else Markup()


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
