"""The web address of a job's run in an experiment tracker. People see it as a link, so it is checked to be one.

A program of a user tells it: it may have user information or a query with a key. Only that user may see it.
"""

from __future__ import annotations

import re
from typing import Final

MLFLOW: Final = "mlflow"  # the names of trackers: those of the fields of `trainer.tracking`
WANDB: Final = "wandb"
TRACKER_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,31}")
MAX_TRACKERS: Final = 4
MAX_URL: Final = 512  # characters
# Characters of RFC 3986. Without "?" there is no query. There is no user information: no "@" in the host and, because a
# password may have a "/", none in the path. A fragment begins as a path does: others may be tokens.
_HOST = r"([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_PATH = r"/[A-Za-z0-9._~:/\[\]!$&'()*+,;=%-]*"
URL_FORM: Final = rf"https?://{_HOST}({_PATH})?(#{_PATH})?"
_URL = re.compile(URL_FORM)


def checked_url(told: object) -> str:
    """The address. ValueError if people must not see it as a link."""
    if not isinstance(told, str) or len(told) > MAX_URL or not _URL.fullmatch(told):
        raise ValueError(
            f"a web address of at most {MAX_URL} characters, beginning with http:// or https://, without user"
            " information and without a query"
        )
    return told


def to_url(told: object) -> str | None:
    """The address without user information, query, and without a fragment that may be a token.

    None if the text has another form, or is too long.
    """
    if not isinstance(told, str) or len(told) > MAX_URL:
        return None
    page, mark, place = told.partition("#")
    scheme, _, rest = page.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    place = mark + place.partition("?")[0] if place.startswith("/") else ""
    found = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}{place}"
    try:
        return checked_url(found)
    except ValueError:
        return None
