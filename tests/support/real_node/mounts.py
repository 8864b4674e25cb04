"""What is mounted below a folder. Nothing below a mount may be removed with the folder: it belongs to others."""

import subprocess
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_ESCAPED = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def below(folder: Path) -> list[Path]:
    """The mount points in `folder`, the deepest first."""
    found = []
    for line in _TABLE.read_text().splitlines():
        text = line.split()[4]
        for escaped, plain in _ESCAPED.items():
            text = text.replace(escaped, plain)
        if folder in Path(text).parents:
            found.append(Path(text))
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def detach(folder: Path) -> None:
    """Unmount everything in `folder`. Raises RuntimeError if something stays mounted."""
    for path in below(folder):
        subprocess.run(["umount", "--lazy", path], check=False, capture_output=True)
    if left := below(folder):
        raise RuntimeError(f"still mounted: {', '.join(map(str, left))}")
