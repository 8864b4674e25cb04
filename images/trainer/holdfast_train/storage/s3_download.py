"""The body of an S3 answer, read directly into the caller's memory."""

import http.client
from collections.abc import Callable
from typing import Any, Final

PIECE_BYTES: Final = 4 << 20


class Body:
    """Fills memory from the `Body` of boto3's get_object.

    The response of http.client reads directly into given memory. The response of urllib3 around it reads into new
    memory and copies, so it is used only if it contains no response of http.client. `direct`: True for http.client.
    """

    def __init__(self, body: Any) -> None:
        self._body = body
        inner: Any = getattr(body._raw_stream, "_fp", None)
        self.direct = isinstance(inner, http.client.HTTPResponse)
        self._read: Callable[[memoryview], int] = inner.readinto if self.direct else body.readinto
        self._whole = False

    def fill(self, *views: memoryview) -> int:
        """Fill `views`, which are together as long as the body should be. Return the number of bytes read."""
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
        """Keep the connection for reuse if the whole body was read; otherwise close it."""
        if self._whole:
            self._body._raw_stream.release_conn()
        else:
            self._body.close()
