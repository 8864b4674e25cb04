"""The body of an S3 answer, read straight into memory of the caller."""

import http.client
from collections.abc import Callable
from typing import Any, Final

__all__ = ["Body"]

PIECE_BYTES: Final = 4 << 20


class Body:
    """Fills memory from the `Body` of boto3's get_object.

    The response of http.client fills memory itself. The one of urllib3 around it reads into new memory and copies from
    there, so it is used only if there is none of http.client in it. `direct` says which it is.
    """

    def __init__(self, body: Any) -> None:
        self._body = body
        inner: Any = getattr(body._raw_stream, "_fp", None)
        self.direct = isinstance(inner, http.client.HTTPResponse)
        self._read: Callable[[memoryview], int] = inner.readinto if self.direct else body.readinto
        self._whole = False

    def fill(self, *views: memoryview) -> int:
        """Fill `views`, together as long as the body should be, one after the other. Returns how many there were."""
        total = 0
        for view in views:
            done = 0
            while done < len(view) and (count := self._read(view[done : done + PIECE_BYTES])):
                done += count
            total += done
            if done < len(view):
                return total
        self._whole = True
        return total

    def close(self) -> None:
        """The connection is used again after a whole body, and closed after half of one."""
        if self._whole:
            self._body._raw_stream.release_conn()
        else:
            self._body.close()
