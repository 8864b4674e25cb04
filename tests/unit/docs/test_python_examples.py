"""Every Python example of the pages runs: outside a pod, and in a pod that saves.

The blocks of a page run in their order, in one namespace: a later example may use names of an earlier one. REPLACED
says what the test runs in place of the text of the page.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.trainer.stores import variables, writer_in_thread
from tests.unit.docs.pages import PAGES, Block, blocks, relative

from holdfast_train.storage.folder import FolderStorage

REPLACED = {
    "1_000": "50",
    "run.steps(600)": "run.steps(50)",
    "time.sleep(0.2)": "time.sleep(0)",
    "num_workers=8": "num_workers=0",
    '_group("gloo")': '_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)',
    '"/tmp/model.pt"': "os.devnull",
    "s3://runs/vision/vit-faces": "{checkpoints}",
}
# A training whose checkpoint the examples of this page load.
SETUP = {
    "docs/how-to/export-import.md": """
        import torch
        from holdfast_train import Run

        model = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.Linear(10, 1))
        with Run(model=model) as run:
            for step in run.steps(2):
                pass
    """
}
EXAMPLES = {page: found for page in PAGES if (found := blocks(page, "python"))}


class Places:
    """Where the examples of one test save: each training has a prefix of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch

    def enter_pod(self, name: str) -> str:
        """From here on this process is in a pod that saves to the prefix `name`."""
        uri = f"file://{self.folder}/{name}"
        for variable, value in variables(uri).items():
            self.monkeypatch.setenv(variable, value)
        return uri

    def leave_pod(self) -> None:
        for variable in [name for name in os.environ if name.startswith("HOLDFAST_")]:
            self.monkeypatch.delenv(variable)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    monkeypatch.setattr("holdfast_train.save.saver.start_writer", writer_in_thread)
    found = Places(tmp_path, monkeypatch)
    found.leave_pod()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the models are tiny: threads would only wait for each other
    yield found
    torch.set_num_threads(threads)


def run(block: Block, names: dict[str, Any], checkpoints: str) -> None:
    text = block.text
    for shown, ran in REPLACED.items():
        text = text.replace(shown, ran.format(checkpoints=checkpoints))
    exec(compile("\n" * block.line + text, block.page, "exec"), names)


def prepare(page: Path, places: Places) -> str:
    """Run the page's setup; the address of its checkpoints."""
    lines = SETUP.get(relative(page), "").splitlines()
    uri = places.enter_pod("setup")
    exec("\n".join(line[8:] for line in lines), {})
    places.leave_pod()
    return uri


# Breaks if an example uses a name that nothing defines, or an argument that the library does not have.
@pytest.mark.parametrize("page", EXAMPLES, ids=relative)
def test_the_examples_run_outside_a_pod(page: Path, places: Places) -> None:
    checkpoints = prepare(page, places)
    names: dict[str, Any] = {"os": os}
    for block in EXAMPLES[page]:
        run(block, names, checkpoints)


# Breaks if an example passes something that a checkpoint cannot contain.
@pytest.mark.parametrize("page", EXAMPLES, ids=relative)
def test_the_examples_save_in_a_pod(page: Path, places: Places) -> None:
    checkpoints = prepare(page, places)
    names: dict[str, Any] = {"os": os}
    for number, block in enumerate(EXAMPLES[page]):
        places.enter_pod(f"prefix-{number}")
        run(block, names, checkpoints)
        if "with Run(" in block.text:
            storage = FolderStorage(str(places.folder / f"prefix-{number}"))
            assert storage.keys("manifests/"), f"{block.name} has saved nothing"
