"""The lines of a container that are kept, as two threads add them."""

import gzip
import sys
import threading

from holdfast_train.pod.launcher.kept_lines import KeptLines


# Breaks if a line of one stream stands before an older one of the other stream.
def test_lines_of_two_streams_are_in_the_order_of_their_times() -> None:
    kept = KeptLines()

    def write(stream: int) -> None:
        for _ in range(20_000):
            kept.add(stream, b"x\n")

    threads = [threading.Thread(target=write, args=(stream,)) for stream in (1, 2)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    lines = gzip.decompress(kept.content()).splitlines()
    assert len(lines) == 40_000
    assert lines == sorted(lines)
