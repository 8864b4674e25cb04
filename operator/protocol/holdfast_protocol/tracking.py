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
# Characters of RFC 3986. Without "@" in the host there is no user information, and without "?" no query.
_TEXT = r"[A-Za-z0-9._~:/\[\]@!$&'()*+,;=%-]*"
URL_FORM: Final = rf"https?://[A-Za-z0-9\[][A-Za-z0-9.:\[\]_-]*(/{_TEXT})?(#{_TEXT})?"
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
    """The address without user information and query; None if the text has another form, or is too long."""
    if not isinstance(told, str) or len(told) > MAX_URL:
        return None
    page, mark, place = told.partition("#")
    scheme, _, rest = page.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    found = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}{mark}{place.partition('?')[0]}"
    try:
        return checked_url(found)
    except ValueError:
        return None
