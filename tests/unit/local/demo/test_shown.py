"""The demo's screen, tables and picture."""

from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text
from tests.support.manifests.observed_jobs import running_job

from holdfast_cli.cluster.job_api import Line
from holdfast_local.demo import command, play, summary
from holdfast_local.demo.losses import LossBook
from holdfast_local.demo.screen import screen
from holdfast_local.demo.script import Script, Struck
from holdfast_local.demo.stories import ONE_NODE
from holdfast_local.demo.verify import Check

NOW = datetime(2026, 11, 21, 9, 3, tzinfo=UTC)


def text(shown: RenderableType) -> str:
    console = Console(width=118, force_terminal=False)
    with console.capture() as captured:
        console.print(shown)
    return captured.get()


def test_the_screen_says_what_was_done_and_what_comes() -> None:
    script = Script(played=[Struck(ONE_NODE.scenes[0], 1, "spot-7", 55, 40)])
    book = LossBook()
    for step in range(40):
        book.see(1, step, 5.0 - step / 10)
    shown = text(screen(running_job(), [], NOW, title="One training", script=script, book=book))
    assert "✓  the cloud reclaims the first spot node (spot-7, at step 55)" in shown
    assert "·  the dedicated node dies without notice" in shown
    assert "█" in shown
    assert max(len(line) for line in shown.splitlines()) <= 118


def test_tables() -> None:
    over = running_job({"phase": "Completed", "finishedAt": "2026-11-21T09:03:00Z"})
    assert "spot  " in text(summary.bars(over))
    assert "Money" in text(summary.money(over))
    shown = text(summary.attempts(running_job()))
    assert "Interruption: SpotInterruption" in shown
    assert "6.5" in shown
    book = LossBook()
    book.see(1, 55, 2.97)
    book.see(2, 56, 2.75)
    shown = text(summary.moves(book.moves([(2, 55)])))
    assert "2.9700 (step 55)" in shown
    assert "2.7500 (step 56)" in shown


def test_a_failed_check_looks_different() -> None:
    assert text(summary.verdict([Check(True, "a"), Check(False, "b")])).split() == ["✓", "a", "✗", "b"]


def test_the_picture_is_an_svg_with_the_text_in_it(tmp_path: Path) -> None:
    file = tmp_path / "images" / "demo.svg"
    command.save(file, Text("every resume at the step that was saved"))
    picture = file.read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    assert "resume" in picture


def test_without_a_terminal_nothing_is_printed_twice() -> None:
    console = Console(width=200, force_terminal=False)
    printed = play.PlainLines(console)
    line = Line("e", NOW, warning=True, reason="Notice", message="[leaving]")
    with console.capture() as captured:
        printed.print_news(running_job(), [line], NOW)
        printed.print_news(running_job(), [line], NOW)
        printed.print_news(running_job({"phase": "Migrating"}), [line], NOW)
    lines = captured.get().splitlines()
    assert len(lines) == 3
    assert lines[0].endswith("Notice: [leaving]")
