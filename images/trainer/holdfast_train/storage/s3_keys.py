"""The keys of an S3 store, in the files of a mounted Secret: a kubelet changes the files when the Secret changes."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import botocore.credentials
import botocore.exceptions
import botocore.loaders
import botocore.session
from botocore.config import Config

from holdfast_protocol.variables import KEYS
from holdfast_train.environment import Credentials

REREAD_SECONDS: Final = 10.0
# botocore renews keys some time before their end. These have no end, so one is made up, far enough that a process which
# was stopped for a while does not meet it.
_LIFETIME: Final = timedelta(days=1)
_TRIES: Final = 5
_DESCRIPTIONS: Final = botocore.loaders.Loader()
"""Of services, for all sessions: to parse them again for each takes longer than all other work of opening a client."""


class KeyFiles:
    """The keys in the files of `folder`, and those of `first` until there are files.

    The files have the names of a Secret's keys, such as AWS_ACCESS_KEY_ID. `newest`: the keys that requests are signed
    with now. Files that are gone or incomplete do not change them; `say` then gets one line. Several threads may use
    one instance.
    """

    def __init__(self, first: Credentials, folder: str, say: Callable[[str], None]) -> None:
        self.newest = replace(first, folder=None)
        self._paths = [Path(folder, name) for name in KEYS]
        self._say = say
        self._had_files = False
        self._has_complained = False

    def read(self) -> Credentials:
        """The keys in the files, otherwise `newest`. It does not change `newest`."""
        try:
            key, secret, token = self._contents()
        except (OSError, UnicodeDecodeError) as error:
            self._complain(str(error))
            return self.newest
        if key and secret:
            self._had_files, self._has_complained = True, False
            return Credentials(key, secret, token)
        if key or secret or self._had_files:
            self._complain(f"{self._paths[1 if key else 0]} is missing or empty")
        return self.newest

    def take(self) -> Credentials:
        """Read the files, and sign requests with these keys from now on."""
        self.newest = self.read()
        return self.newest

    def session(self) -> Any:
        """A session of botocore whose clients use these keys, and read the files again every REREAD_SECONDS."""
        session = session_of_given_keys()
        resolver = botocore.credentials.CredentialResolver([_Provider(self)])
        session.register_component("credential_provider", resolver)
        return session

    def _contents(self) -> list[str | None]:
        """The texts of all files at one moment: a kubelet replaces all of them at once."""
        for _ in range(_TRIES):
            before = [_stamp(path) for path in self._paths]
            found = [_text(path) for path in self._paths]
            if before == [_stamp(path) for path in self._paths]:
                return found
        raise OSError(f"the files in {self._paths[0].parent} change while they are read")

    def _complain(self, why: str) -> None:
        if not self._has_complained:
            self._say(f"the keys of the checkpoint storage cannot be read: {why}; the last ones are used")
        self._has_complained = True


def session_of_given_keys() -> Any:
    """A session of botocore for keys that are given: it reads no variable and no file of the program."""
    files = dict.fromkeys(("config_file", "credentials_file"), os.devnull)
    variables = {
        name: (None, None, files.get(name, default), convert)
        for name, (_, _, default, convert) in botocore.session.Session.SESSION_VARIABLES.items()
    }
    return _session(session_vars=variables)


def session_of_identity(proxies: Mapping[str, str], verify: str | bool) -> Any:
    """A session of botocore that finds keys by itself: variables and files say how. `proxies` and `verify` count for
    the service that gives keys to an identity of the cloud.
    """
    session = _session()
    session.set_default_client_config(Config(proxies=dict(proxies)))
    session.set_config_variable("ca_bundle", verify)
    return session


def _session(**options: Any) -> Any:
    session = botocore.session.Session(**options)
    session.register_component("data_loader", _DESCRIPTIONS)
    return session


class _Provider:
    """A provider of botocore's CredentialResolver."""

    METHOD: Final = "holdfast-key-files"
    CANONICAL_NAME: Final = "custom-holdfast-key-files"

    def __init__(self, files: KeyFiles) -> None:
        self._files = files

    def load(self) -> Any:
        """The keys, None if there are none. PartialCredentialsError if one of the two is missing."""
        keys = self._files.take()
        if not keys.values:
            return None
        for value, name in ((keys.access_key_id, KEYS[0]), (keys.secret_access_key, KEYS[1])):
            if value is None:
                raise botocore.exceptions.PartialCredentialsError(provider=self.METHOD, cred_var=name)
        return botocore.credentials.RefreshableCredentials.create_from_metadata(
            self._metadata(keys),
            refresh_using=lambda: self._metadata(self._files.take()),
            method=self.METHOD,
            advisory_timeout=_LIFETIME.total_seconds() - REREAD_SECONDS,
            mandatory_timeout=0,
        )

    def _metadata(self, keys: Credentials) -> dict[str, str | None]:
        return {
            "access_key": keys.access_key_id,
            "secret_key": keys.secret_access_key,
            "token": keys.session_token,
            "expiry_time": (datetime.now(UTC) + _LIFETIME).isoformat(),
        }


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes with the content of the file, None if there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _text(path: Path) -> str | None:
    """The text of the file, None if there is no file, or nothing in it."""
    try:
        return path.read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None
