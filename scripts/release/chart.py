"""The chart as a package that names the images by their digests."""

import gzip
import io
import os
import re
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from scripts.images.build import Built
from scripts.images.errors import BuildError
from scripts.setup import ROOT

CHART: Final = ROOT / "charts" / "holdfast"
VALUES: Final = "values.yaml"


def package_chart(target: Path, operator: Built, init: Built, epoch: int) -> None:
    """Write what `helm package` would, with digests of images, and `epoch` as the time of each file. BuildError."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(_files()):
            name = path.relative_to(CHART).as_posix()
            content = path.read_bytes() if name != VALUES else with_digests(path.read_text("utf-8"), operator, init)
            entry = tarfile.TarInfo(f"{CHART.name}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o644
            tar.addfile(entry, io.BytesIO(content))
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def with_digests(values: str, operator: Built, init: Built) -> bytes:
    """The chart's values.yaml, comments too, with names and digests of images. BuildError if a value is not there."""
    for pattern, value in (
        (r"^  repository: .*$", f"  repository: {operator.repository}"),
        (r"^  digest: .*$", f"  digest: {operator.digest}"),
        (r"^initImage: .*$", f"initImage: {init.name}@{init.digest}"),
    ):
        values, count = re.subn(pattern, value, values, flags=re.MULTILINE)
        if count != 1:
            raise BuildError(f"{CHART.relative_to(ROOT) / VALUES}: {count} lines are like {pattern}; one must be")
    return values.encode()


def _files() -> Iterator[Path]:
    """The chart's files, also behind links: those of the CRDs lie elsewhere."""
    ignored = (CHART / ".helmignore").read_text(encoding="utf-8").split()
    for folder, _, names in os.walk(CHART, followlinks=True):
        yield from (Path(folder, name) for name in names if not any(fnmatch(name, pattern) for pattern in ignored))
