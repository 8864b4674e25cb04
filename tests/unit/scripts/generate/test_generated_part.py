"""The generated part of a page."""

import pytest
from scripts.generate.generated_part import END, fill

BEGIN = "<!-- The part below is generated from code.py by `make crds`. Do not edit it. -->\n"


def test_only_what_is_between_the_marks_changes() -> None:
    page = f"before\n{BEGIN}old\n{END}after\n"
    assert fill(page, "code.py", "new\n") == f"before\n{BEGIN}new\n{END}after\n"


@pytest.mark.parametrize("page", ["", "before\n", f"{BEGIN}old\n", f"old\n{END}", f"{END}{BEGIN}"])
def test_a_page_without_its_marks_is_refused(page: str) -> None:
    """Breaks if a mark that somebody mistyped doubles the part, or loses what follows."""
    with pytest.raises(ValueError, match="the page needs the lines"):
        fill(page, "code.py", "new\n")
