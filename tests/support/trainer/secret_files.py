"""The files of a mounted Secret, changed as a kubelet changes them."""

import uuid
from pathlib import Path

NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class SecretFiles:
    """A folder whose files are links through `..data`, one link that is replaced at each change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def put(self, *values: str) -> None:
        """Replace all files at once: key, secret, and the session token if it is given."""
        link = self.folder / "..data"
        before = link.resolve() if link.is_symlink() else None
        content = self.folder / f"..{uuid.uuid4().hex}"
        content.mkdir()
        wanted = dict(zip(NAMES, values, strict=False))
        for name, value in wanted.items():
            (content / name).write_text(value)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        fresh = self.folder / "..data_tmp"
        fresh.symlink_to(content.name)
        fresh.replace(link)
        for name in NAMES:
            if name not in wanted:
                (self.folder / name).unlink(missing_ok=True)
        if before is not None:
            for path in before.iterdir():
                path.unlink()
            before.rmdir()
