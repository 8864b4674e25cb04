"""The progress bar, and sizes in bytes."""

import io
import sys
from pathlib import Path

import pytest
import torch
from tests.support.trainer.exchange import run, save

from holdfast_train.exchange.progress_bar import ProgressBar, format_size


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_only_terminals_get_a_progress_bar(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO]
) -> None:
    save(prefix, {"model": {"x": torch.ones(9)}}, 1)
    monkeypatch.setattr(sys, "stderr", err := stream())
    run("export", prefix, tmp_path / "out")
    assert ("100%  36 B" in err.getvalue()) == (stream is Terminal)
    assert stream is Terminal or err.getvalue() == ""


def test_sizes() -> None:
    assert [format_size(n) for n in (0, 1023, 1536, (1 << 30) - 1, 5 << 40)] == [
        "0 B", "1023 B", "1.5 KiB", "1.0 GiB", "5.0 TiB",
    ]  # fmt: skip


def test_the_bar_begins_again_after_a_corrupt_checkpoint() -> None:
    bar = ProgressBar("x")
    bar.begin(10)(5)
    bar.begin(10)(5)
    assert bar._done == 5
