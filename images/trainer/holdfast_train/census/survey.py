"""Read a data set once, and add it up."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from holdfast_train.census.errors import DataSetError, DataSetNotFoundError
from holdfast_train.census.folder import Layout, folder_source
from holdfast_train.census.identical import Known, digest_of, groups
from holdfast_train.census.manifest import Columns, manifest_source
from holdfast_train.census.parquet import parquet_source
from holdfast_train.census.sample import Sample, Seen, Source
from holdfast_train.census.summary import Summary, Twins, in_order

__all__ = ["Begin", "look"]

MANIFESTS: Final = (".csv", ".tsv", ".jsonl", ".ndjson")
MOST_SAMPLES: Final = 20_000_000
MOST_CLASSES: Final = 100_000
MOST_SPLITS: Final = 100
MOST_EXAMPLES: Final = 20
MOST_TWINS_NAMED: Final = 6
Begin = Callable[[str, int | None], Callable[[int], None]]
"""Starts a progress bar: what is done, and of how many (None: not known). What it returns is called with more."""


def look(
    path: Path, *, layout: Layout | None = None, columns: Columns | None = None, hashes: bool = True,
    begin: Begin = lambda _what, _total: lambda _count: None,
) -> Summary:  # fmt: skip
    """Count a folder, a manifest or Parquet. DataSetError says what cannot be read.

    `hashes`: look for samples with the same bytes; this reads all files whose size another one has too.
    """
    source = _source(path, layout, columns or Columns())
    seen, tally = Seen(), _Tally(hashes)
    advance = begin("reading", None)
    for sample in source.samples(seen):
        tally.add(sample, seen)
        advance(1)
    if not tally.samples:
        unreadable = seen.names.get("unreadable", [])
        raise DataSetError(
            f"{path} has no samples" + (f"; {unreadable[0]} cannot be read" if unreadable else "")
            + "; expected: a folder for each class, with files in it, or a list with one sample in each line"
        )  # fmt: skip
    for split, name in seen.classes:
        tally.counts[split].setdefault(name, 0)
    twins = _twins(groups(tally.by_size, seen, lambda total: begin("comparing", total))) if hashes else Twins()
    order = in_order([*tally.counts, *(split for split in tally.unlabelled if split not in tally.counts)])
    counts = {split: dict(tally.counts.get(split, {})) for split in order}
    return Summary(str(path), source.layout, counts, dict(tally.unlabelled), twins, seen)


def _source(path: Path, layout: Layout | None, columns: Columns) -> Source:
    if path.is_dir():
        if layout is None and (files := sorted(path.glob("*.parquet"))):
            return parquet_source(files, columns)
        return folder_source(path, layout)
    if not path.exists():
        raise DataSetNotFoundError(f"{path} does not exist; name a folder, or a file of CSV, TSV, JSONL or Parquet")
    if not path.is_file():
        raise DataSetError(f"{path} is neither a file nor a folder")
    if path.suffix.lower() == ".parquet":
        return parquet_source([path], columns)
    if path.suffix.lower() in MANIFESTS:
        return manifest_source(path, columns)
    raise DataSetError(f"{path} has the ending {path.suffix!r}; allowed: {', '.join((*MANIFESTS, '.parquet'))}")


class _Tally:
    """Counts, and the samples that may have a twin."""

    def __init__(self, hashes: bool) -> None:
        self.counts: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.unlabelled: defaultdict[str, int] = defaultdict(int)
        self.by_size: dict[int, list[Known]] = {}
        self.samples = 0
        self._hashes = hashes
        self._classes: set[str] = set()
        self._splits: set[str] = set()
        self._listed: set[Known] = set()

    def add(self, sample: Sample, seen: Seen) -> None:
        self.samples += 1
        if self.samples > MOST_SAMPLES:
            raise DataSetError(f"the data set has over {MOST_SAMPLES:,} samples; look at a part of it")
        self._splits.add(sample.split)
        if len(self._splits) > MOST_SPLITS:
            raise DataSetError(f"over {MOST_SPLITS} different splits: name the column or the folders of splits")
        if sample.label:
            self.counts[sample.split][sample.label] += 1
            self._classes.add(sample.label)
            if len(self._classes) > MOST_CLASSES:
                raise DataSetError(f"over {MOST_CLASSES:,} different labels: name the column of classes with --label")
        else:
            self.unlabelled[sample.split] += 1
        if self._hashes:
            self._keep(sample, seen)

    def _keep(self, sample: Sample, seen: Seen) -> None:
        size, digest = sample.size, b""
        if sample.content is not None:
            size, digest = len(sample.content), digest_of(sample.content)
        elif sample.file is None:
            return
        known = Known(sample.split, sample.label, sample.name, sample.file, digest)
        if sample.file is not None and size < 0:  # of a list, which may have a file twice
            if known in self._listed:
                seen.add("listed twice", sample.name)
                return
            self._listed.add(known)
            try:
                size = sample.file.stat().st_size if sample.file.is_file() else -1
            except (OSError, ValueError):
                size = -1
            if size < 0:
                seen.add("unreadable", f"{sample.name}: no such file")
                return
        if size == 0:
            seen.add("empty", sample.name)
            return
        self.by_size.setdefault(size, []).append(known)


def _twins(found: Iterator[list[Known]]) -> Twins:
    within = across = conflicts = 0
    kinds: dict[str, list[tuple[str, list[str]]]] = {"across splits": [], "different labels": [], "same split": []}
    for same in found:
        splits, labels = {one.split for one in same}, {one.label for one in same}
        within += len(same) - len(splits)
        across += len(splits) > 1
        conflicts += len(labels) > 1
        kind = "across splits" if len(splits) > 1 else "different labels" if len(labels) > 1 else "same split"
        if len(kinds[kind]) < MOST_EXAMPLES:
            names = [f"{one.split + ': ' if one.split and one.file is None else ''}{one.name}" for one in same]
            kinds[kind].append((kind, sorted(names)[:MOST_TWINS_NAMED]))
    examples = [example for some in kinds.values() for example in some][:MOST_EXAMPLES]
    return Twins(within, across, conflicts, examples)
