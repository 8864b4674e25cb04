"""The note in a folder: at which commit it is, and what was there before the job's first start."""

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from holdfast_train.folder.look import OWN, File
from holdfast_train.folder.snapshot import READ
from holdfast_train.say import say

NAME: Final = f"{OWN}folder.json"
MOST_BYTES: Final = 4 << 20
MOST_OLD: Final = 10_000  # files; of more, only the attempt that was there first knows which are old


class Note:
    """The note of the folder `root`, for the job whose checkpoints lie at `prefix`.

    A folder is at a commit if everything that has changed in it since was written after that commit. While it is not
    known whether the last commit took effect, it is at one of two.
    """

    def __init__(self, root: Path, prefix: str) -> None:
        self._root = root
        self._path = root / NAME
        self._prefix = prefix
        self._body: dict[str, Any] = {}
        self._has_complained = False
        self._is_waiting = False  # for the first file
        self.is_new = True
        """No earlier attempt of the job has noted anything here."""

    def read(self) -> None:
        """Take what an earlier attempt has noted. OSError if it cannot be read. A torn note is none."""
        try:
            descriptor = os.open(self._path, READ)
        except FileNotFoundError:
            return
        with os.fdopen(descriptor, "rb") as opened:
            data = opened.read(MOST_BYTES)
        try:
            body = json.loads(data)
            if body["prefix"] == self._prefix:
                self._body, self.is_new = body, False
        except (ValueError, KeyError, TypeError, RecursionError):
            return

    def is_at(self, uri: str) -> bool:
        """True if the folder is at the commit whose manifest is at `uri`."""
        commits = self._body.get("commits")
        return isinstance(commits, list) and uri in commits

    @property
    def old(self) -> Mapping[str, object] | None:
        """The signatures of files that were there before the job's first start, None if nothing says it."""
        found = self._body.get("old")
        if not isinstance(found, dict):
            return None
        return {path: tuple(one) for path, one in found.items() if isinstance(one, list)}

    @property
    def copies(self) -> Mapping[str, object]:
        """The signatures of files that were put back here and are those of other nodes."""
        found = self._body.get("copies")
        return {p: tuple(one) for p, one in found.items() if isinstance(one, list)} if isinstance(found, dict) else {}

    def note_copies(self, files: Mapping[str, File]) -> None:
        """These files were put back, and are those of other nodes. The next `note_commits` writes it."""
        self._body.pop("copies", None)
        if files and len(files) <= MOST_OLD:
            self._body["copies"] = {path: list(file.signature) for path, file in files.items()}

    def note_old(self, files: Mapping[str, File]) -> None:
        """The job starts for the first time, and finds these files. OSError: as `note_commits`.

        A program may want to begin in an empty folder, so without files the note waits until there are some.
        """
        self._is_waiting = not files
        if len(files) <= MOST_OLD:
            self._body["old"] = {path: list(file.signature) for path, file in files.items()}
        if files:
            self.note_commits(())

    def see(self, files: Mapping[str, File]) -> None:
        """These files are in the folder now. OSError: as `note_commits`."""
        if self._is_waiting and files:
            self.note_commits(())

    def note_commits(self, uris: tuple[str, ...]) -> None:
        """The folder is at one of these commits.

        A full volume has no room for the note, and must still be committed: then there is no note, and a later attempt
        takes the newest commit for newer than the folder. OSError if the old note cannot be deleted either.
        """
        self._is_waiting = False
        self._body |= {"v": 1, "prefix": self._prefix, "commits": list(uris)}
        try:
            self._write()
        except OSError as error:
            self._path.unlink(missing_ok=True)
            if not self._has_complained:
                say(f"{self._path} cannot be written ({error.strerror}): the next start uses the newest checkpoint")
            self._has_complained = True

    def _write(self) -> None:
        new = self._root / f"{OWN}{uuid.uuid4().hex[:12]}.new"
        try:
            with new.open("xb") as opened:
                opened.write(json.dumps(self._body).encode())
                opened.flush()
                os.fsync(opened.fileno())
            new.replace(self._path)
        finally:
            new.unlink(missing_ok=True)
