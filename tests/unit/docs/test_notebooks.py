"""Notebooks of the documentation are valid, and have no outputs: those of one run would be wrong in the next one."""

from pathlib import Path

import nbformat
import pytest
from tests.unit.docs.pages import PAGES, relative


# Breaks if a notebook is committed as an editor saves it after a run: with paths, times, and what the kernel was.
@pytest.mark.parametrize("page", [page for page in PAGES if page.suffix == ".ipynb"], ids=relative)
def test_a_notebook_has_cells_and_nothing_of_a_run(page: Path) -> None:
    found = nbformat.read(page, as_version=4)
    nbformat.validate(found)
    assert set(found.metadata) == {"kernelspec", "language_info"}
    assert found.metadata.language_info == {"name": "python"}
    for cell in found.cells:
        assert not cell.metadata, cell.id
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None), cell.id
