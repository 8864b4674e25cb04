"""What was gathered as one HTML file: the page of a training, or a comparison of several."""

from collections.abc import Sequence

from holdfast_cli.pages.comparison import comparison_page
from holdfast_cli.pages.document import document
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.pages.job_page import job_page


def html(found: Sequence[JobInputs]) -> str:
    """The document."""
    return document(job_page(found[0]) if len(found) == 1 else comparison_page(found), live=False)
