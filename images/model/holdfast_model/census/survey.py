"""Read a data set once, and add it up."""

from collections import defaultdict
from pathlib import Path
from typing import Final

from holdfast_model.census.coco import coco_files, look_at_boxes
from holdfast_model.census.errors import DataSetError, DataSetNotFoundError
from holdfast_model.census.folder import Layout, folder_source
from holdfast_model.census.identical import Known, add_up, digest_of, groups
from holdfast_model.census.manifest import Columns, manifest_source
from holdfast_model.census.parquet import parquet_source
from holdfast_model.census.sample import Begin, Sample, Seen, Source
from holdfast_model.census.summary import Summary, Twins, in_order

MANIFESTS: Final = (".csv", ".tsv", ".jsonl", ".ndjson")
MOST_SAMPLES: Final = 20_000_000
MOST_CLASSES: Final = 100_000
MOST_SPLITS: Final = 100


def look(
    path: Path, *more: Path, layout: Layout | None = None, columns: Columns | None = None, hashes: bool = True,
    images: Path | None = None, begin: Begin = lambda _what, _total: lambda _count: None,
) -> Summary:  # fmt: skip
    """Count a folder, a manifest, Parquet, or files of COCO. DataSetError says what cannot be read.

    `more`: further files of COCO, a split each. `images`: the folder with the images that they name. `hashes`: look for
    samples with the same bytes; this reads all files whose size another one has too.
    """
    if files := coco_files((path, *more), is_asked=layout is None):
        return look_at_boxes(path, files, images, hashes=hashes, begin=begin)
    if more or images:
        what = f"{more[0]}: several places" if more else f"{images}: a folder of images"
        raise DataSetError(f"{what}; only files of COCO, which end in .json, can have that")
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
    twins = add_up(groups(tally.by_size, seen, lambda total: begin("comparing", total))) if hashes else Twins()
    order = in_order([*tally.counts, *(split for split in tally.unlabelled if split not in tally.counts)])
    counts = {split: dict(tally.counts.get(split, {})) for split in order}
    return Summary(str(path), source.layout, counts, dict(tally.unlabelled), twins, seen)


def _source(path: Path, layout: Layout | None, columns: Columns) -> Source:
    if path.is_dir():
        if layout is None and (files := sorted(path.glob("*.parquet"))):
            return parquet_source(files, columns)
        return folder_source(path, layout)
    if not path.exists():
        raise DataSetNotFoundError(
            f"{path} does not exist; name a folder, or a file of CSV, TSV, JSONL, Parquet or COCO"
        )
    if not path.is_file():
        raise DataSetError(f"{path} is neither a file nor a folder")
    if path.suffix.lower() == ".parquet":
        return parquet_source([path], columns)
    if path.suffix.lower() in MANIFESTS:
        return manifest_source(path, columns)
    raise DataSetError(
        f"{path} has the ending {path.suffix!r}; allowed: {', '.join((*MANIFESTS, '.parquet', '.json'))}"
    )


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
