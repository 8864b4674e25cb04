"""The file over memory that boto3 is given, and how objects are cut."""

import pytest

from holdfast_train.storage.checksums import CHUNK_BYTES
from holdfast_train.storage.s3_upload import BLOCK_BYTES, LEAST_PART_BYTES, Uploader, Window


def test_a_window_hands_out_views_of_the_memory_itself() -> None:
    memory = bytearray(range(256)) * (BLOCK_BYTES // 100)
    asked: list[int] = []
    window = Window(memoryview(memory), asked.append)
    blocks = []
    while block := window.read(16384):
        assert block.obj is memory
        blocks.append(block)
    assert b"".join(blocks) == memory
    assert asked == [len(block) for block in blocks]
    assert max(asked) == BLOCK_BYTES
    assert len(window) == len(memory)


def test_a_window_can_be_sent_again() -> None:
    """As after a redirect to another region."""
    window = Window(memoryview(b"abc"), lambda _: None)
    assert bytes(window.read()) == b"abc"
    assert (window.tell(), bytes(window.read())) == (3, b"")
    assert window.seek(1) == 1
    assert bytes(window.read()) == b"bc"
    assert (window.seek(-1, 2), window.seek(-1, 1)) == (2, 1)


def uploader(part_bytes: int, parallel: int) -> Uploader:
    return Uploader(lambda: None, lambda _, call: call(), part_bytes=part_bytes, parallel=parallel, say=lambda _: None)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 60 << 20, 64 << 20, 100 << 20, 333 << 20, 4 << 30])
def test_parts_are_whole_chunks_and_within_what_s3_allows(size: int) -> None:
    found = uploader(64 << 20, 8)._part_size(size)
    assert found % CHUNK_BYTES == 0
    assert LEAST_PART_BYTES <= found <= 64 << 20
    assert size / found <= 10_000


def test_a_small_object_is_cut_for_all_connections() -> None:
    assert uploader(64 << 20, 8)._part_size(256 << 20) == 32 << 20
    assert uploader(8 << 20, 8)._part_size(256 << 20) == 8 << 20


def test_parts_that_cut_chunks_are_refused() -> None:
    with pytest.raises(ValueError, match="a multiple of"):
        uploader((64 << 20) + 1, 8)
