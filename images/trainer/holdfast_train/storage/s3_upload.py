"""Uploads of large objects to S3: in parts, several at once, straight out of the caller's memory, checked by the store.

boto3 does the requests. What it is not made for is to send memory as it is: it takes bytes, or a file that it reads in
blocks of 16 KiB. `Window` is such a file, whose blocks are views of 1 MiB that go to the socket without a copy.

What is checked on the way: each part carries its CRC-64/NVME, which the store compares with what has arrived, and the
whole object's is compared again when the parts are put together. That is the sum of the manifest's own sums where the
caller gives these, so that what is stored is what the manifest says. A store that does not know this checksum gets
Content-MD5 for each part, at several times the CPU; one that knows neither cannot be used.
"""

import base64
import contextlib
import hashlib
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import botocore.exceptions
from awscrt import checksums

from holdfast_train.errors import CheckpointCorruptError, StorageError, StorageUnreachableError
from holdfast_train.storage.checksums import CHUNK_BYTES
from holdfast_train.storage.rate_limit import Rate

__all__ = ["Uploader", "Window"]

LEAST_PART_BYTES: Final = 16 << 20
BLOCK_BYTES: Final = 1 << 20
PART_TRIES: Final = 4
FIRST_DELAY: Final = 0.1
# What stores say of a checksum that they do not know. Those that say nothing do not send it back either.
_UNKNOWN: Final = frozenset({"InvalidArgument", "InvalidRequest", "NotImplemented", "UnsupportedArgument"})


class _NotCheckedError(Exception):
    """The store does not check CRC-64/NVME; the text says how that was seen."""


class _StoppedError(Exception):
    """Another part has failed for good: this one need not go on."""


class Window:
    """A file over memory that hands out views of it. `read` ignores how much is asked for; see above.

    `before` is called with the length of each block before it is sent, and may wait, or raise to stop the upload.
    """

    def __init__(self, data: memoryview, before: Callable[[int], None]) -> None:
        self._data = data
        self._before = before
        self._at = 0

    def __len__(self) -> int:
        return len(self._data)

    def read(self, _size: int = -1) -> memoryview:
        """The next block, empty at the end."""
        block = self._data[self._at : self._at + BLOCK_BYTES]
        if block:
            self._before(len(block))
        self._at += len(block)
        return block

    def seek(self, offset: int, whence: int = 0) -> int:
        """As of any file."""
        self._at = offset + (0, self._at, len(self._data))[whence]
        return self._at

    def tell(self) -> int:
        """As of any file."""
        return self._at


@dataclass(frozen=True)
class _Part:
    """`known`: sums of its chunks, if the caller has them."""

    number: int
    data: memoryview
    known: Sequence[int]

    def crc(self) -> int:
        """CRC-64/NVME of the part."""
        if not self.known:
            return int(checksums.crc64nvme(self.data))
        lengths = [min(CHUNK_BYTES, len(self.data) - at) for at in range(0, len(self.data), CHUNK_BYTES)]
        return _combined(zip(self.known, lengths, strict=True))


class Uploader:
    """Writes objects of one bucket. Parts of all objects share `parallel` threads, so what is in flight is bounded.

    A part has at most `part_bytes`, a multiple of a manifest's chunk.

    `client` gives the boto3 client and `call` makes errors of a request those of Storage: both are S3Storage's.
    `say` gets one line if the store cannot check CRC-64/NVME.
    """

    def __init__(
        self,
        client: Callable[[], Any],
        call: Callable[[str, Callable[[], Any]], Any],
        *,
        part_bytes: int,
        parallel: int,
        say: Callable[[str], None],
    ) -> None:
        if part_bytes % CHUNK_BYTES:
            raise ValueError(f"parts of {part_bytes} bytes; allowed: a multiple of {CHUNK_BYTES}")
        self._client = client
        self._call = call
        self._part_bytes = part_bytes
        self._parallel = parallel
        self._say = say
        self._pool = ThreadPoolExecutor(parallel, "holdfast-upload")
        self._use_crc = True
        self._lock = threading.Lock()
        self._left: list[dict[str, str]] = []

    def write(self, key: str, target: dict[str, str], data: memoryview, sums: Sequence[str], rate: Rate | None) -> None:
        """Create the object `target` (Bucket, Key), which is `key` in messages. Errors as of Storage.write.

        CheckpointCorruptError if `data` is not what `sums` say.
        """
        size = self._part_size(len(data))
        known, step = [int(text, 16) for text in sums], size // CHUNK_BYTES
        parts = [
            _Part(number + 1, data[at : at + size], known[step * number : step * (number + 1)])
            for number, at in enumerate(range(0, max(1, len(data)), size))
        ]
        try:
            self._try(key, target, parts, rate, crc=self._use_crc)
        except _NotCheckedError as reason:
            self._try(key, target, parts, rate, crc=False)
            with self._lock:
                first, self._use_crc = self._use_crc, False
            if first:
                self._say(f"the store does not check CRC-64/NVME ({reason}): uploads use Content-MD5, at more CPU")
        self._abort_left()

    def _part_size(self, length: int) -> int:
        """Large parts cost fewer requests; smaller ones give an object of a few of them to all connections."""
        even = -(-length // (self._parallel * CHUNK_BYTES)) * CHUNK_BYTES
        return min(self._part_bytes, max(LEAST_PART_BYTES, even))

    def _try(self, key: str, target: dict[str, str], parts: Sequence[_Part], rate: Rate | None, *, crc: bool) -> None:
        upload = _Upload(self._client, self._call, key, target, rate, crc)
        try:
            if len(parts) == 1:
                upload.in_one(parts[0])
            else:
                upload.in_parts(self._pool, parts)
        except BaseException as error:
            if upload.begun is not None:
                with self._lock:
                    self._left.append(upload.begun)
            if not isinstance(error, StorageUnreachableError):  # a store that is silent would be waited for once more
                self._abort_left()
            raise

    def _abort_left(self) -> None:
        """Give the space of failed uploads back. What cannot be aborted now is found by Storage.drop_unfinished."""
        with self._lock:
            left, self._left = self._left, []
        for upload in left:
            with contextlib.suppress(StorageError):
                self._call(upload["Key"], lambda: self._client().abort_multipart_upload(**upload))  # noqa: B023


@dataclass
class _Upload:
    """One try to write one object. `begun`: what it takes to abort it."""

    client: Callable[[], Any]
    call: Callable[[str, Callable[[], Any]], Any]
    key: str
    target: dict[str, str]
    rate: Rate | None
    crc: bool
    begun: dict[str, str] | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def in_one(self, part: _Part) -> None:
        """The object is one part."""
        self._send(part, lambda **more: self.client().put_object(**self.target, **more))

    def in_parts(self, pool: ThreadPoolExecutor, parts: Sequence[_Part]) -> None:
        """All `parts` in the threads of `pool`, then one request that makes them the object."""
        options = {"ChecksumAlgorithm": "CRC64NVME", "ChecksumType": "FULL_OBJECT"} if self.crc else {}
        begun = self._request(lambda: self.client().create_multipart_upload(**self.target, **options))
        upload = self.begun = {**self.target, "UploadId": begun["UploadId"]}
        futures = [pool.submit(self._part, part) for part in parts]
        errors = [error for future in futures if (error := future.exception()) is not None]
        for error in errors:
            if not isinstance(error, _StoppedError):
                raise error
        done = [future.result() for future in futures]
        options = {}
        if self.crc:
            whole = _combined(((crc, len(part.data)) for (_, crc), part in zip(done, parts, strict=True)))
            options = {"ChecksumCRC64NVME": _base64(whole), "ChecksumType": "FULL_OBJECT"}
        listed = {"Parts": [entry for entry, _ in done]}
        self._request(lambda: self.client().complete_multipart_upload(**upload, MultipartUpload=listed, **options))
        self.begun = None

    def _part(self, part: _Part) -> tuple[dict[str, Any], int]:
        def request(**more: Any) -> Any:
            assert self.begun is not None
            return self.client().upload_part(**self.begun, PartNumber=part.number, **more)

        try:
            answer, crc = self._send(part, request)
        except BaseException:
            if self._stop.is_set():  # then it is no news, or the way in which this one was stopped
                raise _StoppedError from None
            self._stop.set()
            raise
        sums = {"ChecksumCRC64NVME": _base64(crc)} if self.crc else {}
        return {"PartNumber": part.number, "ETag": answer["ETag"], **sums}, crc

    def _send(self, part: _Part, request: Callable[..., Any]) -> tuple[Any, int]:
        """Send one part, again if the store is only busy: one 503 must not cost the gigabytes that are there already.

        A store that is silent is not waited for twice: that is for the caller, who knows how long there is.
        """
        crc = part.crc() if self.crc else 0
        check = {"ChecksumCRC64NVME": _base64(crc)} if self.crc else {"ContentMD5": _md5(part.data)}
        delay = FIRST_DELAY
        for left in reversed(range(PART_TRIES)):
            if self._stop.is_set():
                raise _StoppedError
            try:
                answer = self._request(lambda: request(Body=Window(part.data, self._before), **check))
            except StorageUnreachableError as error:
                if self.crc and part.known and checksums.crc64nvme(part.data) != crc:
                    raise CheckpointCorruptError(
                        f"{self.key}: its bytes in memory are not the ones whose checksums were taken"
                    ) from error
                if not left or not _answered(error):
                    raise
                time.sleep(delay * random.uniform(0.5, 1.5))  # noqa: S311
                delay *= 2
                continue
            if self.crc and answer.get("ChecksumCRC64NVME") != check["ChecksumCRC64NVME"]:
                raise _NotCheckedError("it does not send it back")
            return answer, crc
        raise AssertionError("the last try returns or raises")

    def _before(self, size: int) -> None:
        if self.rate is not None:
            self.rate.wait(size)
        if self._stop.is_set():
            raise _StoppedError

    def _request(self, request: Callable[[], Any]) -> Any:
        """The answer. _NotCheckedError if the store refuses the checksum, else errors of Storage."""

        def guarded() -> Any:
            try:
                return request()
            except botocore.exceptions.ClientError as error:
                answer = error.response.get("Error", {})
                if self.crc and answer.get("Code") in _UNKNOWN:
                    raise _NotCheckedError(f"{answer['Code']}: {answer.get('Message', '')}") from error
                raise

        return self.call(self.key, guarded)


def _answered(error: StorageError) -> bool:
    """True if the store said so itself, or hung up; False if it was not there or said nothing."""
    return isinstance(error.__cause__, (botocore.exceptions.ClientError, botocore.exceptions.ConnectionClosedError))


def _combined(pieces: Iterable[tuple[int, int]]) -> int:
    """The CRC-64/NVME of pieces end to end, each given by its own and its length in bytes."""
    total = 0
    for crc, length in pieces:
        total = int(checksums.combine_crc64nvme(total, crc, length))
    return total


def _base64(crc: int) -> str:
    return base64.b64encode(crc.to_bytes(8, "big")).decode()


def _md5(data: memoryview) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
