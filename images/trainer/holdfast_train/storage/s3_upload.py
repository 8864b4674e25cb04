"""Uploads of large objects to S3: several parts at once, directly from the caller's memory, checked by the store.

boto3 sends the requests. It accepts bytes, or a file that it reads in blocks of 16 KiB, but not memory without a copy.
`Window` is a file whose blocks are views of 64 KiB, which go to the socket without a copy.

Checks: each part carries its CRC-64/NVME, which the store compares with the received bytes. The store compares the
checksum of the whole object again when it joins the parts. If the caller gives the checksums of the manifest, these
checksums are computed from them, so the stored bytes match the manifest. A store without CRC-64/NVME gets Content-MD5
for each part, which costs several times the CPU. A store without both cannot be used.
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
from holdfast_train.storage.rate_limit import RateLimit

LEAST_PART_BYTES: Final = 16 << 20
# A plain socket has the connection's timeout, of 5 seconds, for each block: 13 KB a second are enough. Larger blocks
# save no time.
BLOCK_BYTES: Final = 64 << 10
PART_TRIES: Final = 4
FIRST_DELAY: Final = 0.1
_JITTER: Final = random.SystemRandom()  # not the global generator: its numbers belong to the program
# Error codes of stores for an unknown checksum. A store that ignores the checksum does not send it back either.
_UNKNOWN: Final = frozenset({"InvalidArgument", "InvalidRequest", "NotImplemented", "UnsupportedArgument"})


class _NotCheckedError(Exception):
    """The store does not check CRC-64/NVME; the text gives the evidence."""


class _StoppedError(Exception):
    """Another part has failed permanently: this part stops."""


class Window:
    """A file over memory that returns views of it. `read` ignores the requested size; see the module's docstring.

    `before` is called with the length of each block before it is sent. It may wait, or raise to stop the upload.
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
    """One part. `known`: the checksums of its chunks, empty if the caller does not have them."""

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
    """Writes objects of one bucket. Parts of all objects share `parallel` threads, which bounds the bytes in flight.

    A part has at most `part_bytes`, a multiple of a manifest's chunk. `client` returns the boto3 client. `call`
    translates errors of a request to those of Storage. `say` gets one line if the store cannot check CRC-64/NVME.
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
            raise ValueError(f"part_bytes is {part_bytes}; allowed: a multiple of {CHUNK_BYTES}")
        self._client = client
        self._call = call
        self._part_bytes = part_bytes
        self._parallel = parallel
        self._say = say
        self._pool = ThreadPoolExecutor(parallel, "holdfast-upload")
        self._use_crc = True
        self._lock = threading.Lock()
        self._left: list[dict[str, str]] = []

    def write(
        self, key: str, target: dict[str, str], data: memoryview, sums: Sequence[str], rate: RateLimit | None
    ) -> None:
        """Create the object `target` (Bucket, Key); messages call it `key`. Errors: those of Storage.write.

        CheckpointCorruptError if `data` does not match `sums`.
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
                self._say(
                    f"the store does not check CRC-64/NVME ({reason}): uploads use Content-MD5, which costs more CPU"
                )
        self._abort_left()

    def _part_size(self, length: int) -> int:
        """The size of a part. Large parts need fewer requests; small parts let a small object use all connections."""
        even = -(-length // (self._parallel * CHUNK_BYTES)) * CHUNK_BYTES
        return min(self._part_bytes, max(LEAST_PART_BYTES, even))

    def _try(
        self, key: str, target: dict[str, str], parts: Sequence[_Part], rate: RateLimit | None, *, crc: bool
    ) -> None:
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
            if not isinstance(error, StorageUnreachableError):  # a silent store would cost another wait
                self._abort_left()
            raise

    def _abort_left(self) -> None:
        """Abort failed uploads to free their space. Storage.drop_unfinished finds those that cannot be aborted now."""
        with self._lock:
            left, self._left = self._left, []
        for upload in left:
            with contextlib.suppress(StorageError):
                self._call(upload["Key"], lambda: self._client().abort_multipart_upload(**upload))  # noqa: B023


@dataclass
class _Upload:
    """One attempt to write one object. `begun`: the arguments of an abort."""

    client: Callable[[], Any]
    call: Callable[[str, Callable[[], Any]], Any]
    key: str
    target: dict[str, str]
    rate: RateLimit | None
    crc: bool
    begun: dict[str, str] | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def in_one(self, part: _Part) -> None:
        """Write the object as one part."""
        self._send(part, lambda **more: self.client().put_object(**self.target, **more))

    def in_parts(self, pool: ThreadPoolExecutor, parts: Sequence[_Part]) -> None:
        """Send `parts` in the threads of `pool`, then join them with one request."""
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
            if self._stop.is_set():  # the first error is known already, or it stopped this part
                raise _StoppedError from None
            self._stop.set()
            raise
        sums = {"ChecksumCRC64NVME": _base64(crc)} if self.crc else {}
        return {"PartNumber": part.number, "ETag": answer["ETag"], **sums}, crc

    def _send(self, part: _Part, request: Callable[..., Any]) -> tuple[Any, int]:
        """Send one part. Repeat it if the store is busy: one 503 must not waste the gigabytes sent before.

        A silent store is an error at once: only the caller knows how much time is left.
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
                        f"{self.key}: the bytes in memory have changed since their checksums were computed"
                    ) from error
                if not left or not _answered(error):
                    raise
                time.sleep(delay * _JITTER.uniform(0.5, 1.5))
                delay *= 2
                continue
            if self.crc and answer.get("ChecksumCRC64NVME") != check["ChecksumCRC64NVME"]:
                raise _NotCheckedError("the answer does not contain it")
            return answer, crc
        raise AssertionError("the last try returns or raises")

    def _before(self, size: int) -> None:
        if self.rate is not None:
            self.rate.wait(size)
        if self._stop.is_set():
            raise _StoppedError

    def _request(self, request: Callable[[], Any]) -> Any:
        """The answer. _NotCheckedError if the store refuses the checksum; otherwise errors of Storage."""

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
    """True if the store answered or closed the connection; False if there was no connection or no answer."""
    return isinstance(error.__cause__, (botocore.exceptions.ClientError, botocore.exceptions.ConnectionClosedError))


def _combined(pieces: Iterable[tuple[int, int]]) -> int:
    """The CRC-64/NVME of joined pieces, each given by its CRC and its length in bytes."""
    total = 0
    for crc, length in pieces:
        total = int(checksums.combine_crc64nvme(total, crc, length))
    return total


def _base64(crc: int) -> str:
    return base64.b64encode(crc.to_bytes(8, "big")).decode()


def _md5(data: memoryview) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
