"""The tutorial for a notebook: a kernel of Jupyter executes its cells, and they show what its text says."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell
from tests.support.guard import guarded_cluster, temporary_folder
from tests.support.pages.read_html import Read

TUTORIAL = Path(__file__).resolve().parents[3] / "docs" / "tutorial" / "notebook.ipynb"
GOAL = 1000
REPLACED = {"time.sleep(0.2)": "time.sleep(0.03)", "--notice 30s": "--notice 20s"}  # the rest stays as it is

pytestmark = [pytest.mark.cluster, pytest.mark.training, pytest.mark.thorough]


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The notebook's folder. Nothing of the user's own settings counts, and no other local cluster is touched."""
    with temporary_folder("hf-") as parent, guarded_cluster(parent / "c"):
        monkeypatch.setenv("HOLDFAST_LOCAL_ROOT", str(parent / "c"))
        for name in ("XDG_CONFIG_HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "TMPDIR"):
            (parent / name).mkdir()
            monkeypatch.setenv(name, str(parent / name))
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
        (parent / "beside").mkdir()
        (parent / "beside" / "notes.txt").write_text("a file beside the notebook")
        yield parent / "beside"


class Shown(NamedTuple):
    """What a cell shows: text that it prints, its last value as text and as HTML, and its error."""

    printed: str
    value: str
    html: str
    error: list[str]


def executed(folder: Path, *, after_run: str) -> dict[str, Shown]:
    """Execute the tutorial in `folder`, and one more cell after the one that starts the job; what each cell shows."""
    notebook = nbformat.read(TUTORIAL, as_version=4)
    for cell in notebook.cells:
        for shown, ran in REPLACED.items():
            cell.source = cell.source.replace(shown, ran)
    (run,) = (number for number, cell in enumerate(notebook.cells) if cell.id == "run")
    more = new_code_cell(after_run, id="more", metadata={"tags": ["raises-exception"]})
    notebook.cells.insert(run + 1, more)
    place = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, kernel_name="python3", timeout=300, resources=place).execute()
    return {cell.id: shown_by(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"}


def shown_by(outputs: list[Any]) -> Shown:
    printed = "".join(one.text for one in outputs if one.output_type == "stream")
    values = [one.data for one in outputs if one.output_type in ("execute_result", "display_data")]
    assert len(values) <= 1, "besides its last value a cell shows nothing but text"
    value = values[0] if values else {}
    error = [line for one in outputs if one.output_type == "error" for line in one.traceback]
    return Shown(printed.replace("\r\n", "\n"), value.get("text/plain", ""), value.get("text/html", ""), error)


# Breaks if a reader who runs the cells sees an error, or something that the text does not say.
def test_the_cells_show_what_the_text_says(places: Path) -> None:
    cells = executed(places, after_run='def again():\n    client.run(train, 1, name="sine")\n\nagain()')

    assert "The local cluster is up, with Holdfast" in cells["up"].printed
    assert cells["client"].value == "[]"
    assert re.fullmatch(r"step 50: loss \d\.\d+\n", cells["try"].printed)
    assert re.search(r"^1 file, .*\ntiers: spot .*\ncode \w+: sent", cells["run"].printed, re.MULTILINE)
    assert cells["more"].error == [
        "line 4: again()",
        'line 2: client.run(train, 1, name="sine")',
        "CliError: a job sine exists",
        'hint: give again="continue", again="new", or another name',
    ]

    running, done = Read(cells["wait"].html), Read(cells["completed"].html)
    assert "Running" in running.text
    assert {"svg", "polyline"} <= running.tags
    step = re.match(r"{'step': (\d+),", cells["history"].value)
    assert step, cells["history"].value
    assert int(step[1]) >= 90  # the file of the history is written every few seconds
    assert "step 50: loss" in cells["logs"].printed

    assert re.match(r"spot-[12]: reclaimed", cells["reclaim"].printed)
    for words in ("Completed", f"{GOAL:,} / {GOAL:,}", "1 interruption"):
        assert words in done.text
    attempts = re.findall(r"attempt (\d) on (\S+): steps (\d+) to (\d+), (\d+) lost, (\w+)", cells["attempts"].printed)
    (_, node, first, left, lost, why), (_, other, resumed, last, lost_later, end) = attempts
    assert cells["reclaim"].printed.startswith(f"{node}: ")
    assert node != other
    assert (int(first), int(resumed), int(last)) == (1, int(left) + 1, GOAL), "no step is left out, none comes twice"
    assert (lost, lost_later, why, end) == ("0", "0", "SpotInterruption", "Completed")

    assert f"holdfast: resumed from step {left} " in cells["resumed"].printed
    told = [int(number) for number in re.findall(r"^step (\d+): ", cells["resumed"].printed, re.MULTILINE)]
    assert told == list(range(50, GOAL + 1, 50)), "the log of attempt 1 is there, although its node is gone"
    assert f"step={GOAL}" in cells["checkpoint"].value
    found, true = re.findall(r"tensor\((.*)\)", cells["predict"].printed)
    assert eval(found) == pytest.approx(eval(true), abs=0.15)

    assert cells["cancel"].value == "[]"
    assert cells["down"].printed
    assert not (places.parent / "c").exists()
