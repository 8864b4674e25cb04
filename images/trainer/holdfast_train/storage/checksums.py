"""The checksum of each chunk of some data."""

from typing import Final

from awscrt import checksums

CHUNK_BYTES: Final = 4 << 20


def chunk_sums(data: bytes | bytearray | memoryview, chunk: int = CHUNK_BYTES) -> tuple[str, ...]:
    """The CRC-64/NVME of each chunk of `chunk` bytes, in 16 hex digits: a JSON number is exact only up to 53 bits."""
    view = memoryview(data)
    return tuple(f"{checksums.crc64nvme(view[at : at + chunk]):016x}" for at in range(0, len(view), chunk))
