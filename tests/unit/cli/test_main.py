"""What `holdfast` says of options with wrong values."""

import pytest
from typer.testing import CliRunner

from holdfast_cli.main import app


# Breaks if an error repeats the words of the library that reads the value ("Input should be a valid integer, ...").
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("simulate --synthetic --windows x", """'--windows': "x": must be a whole number"""),
        ("simulate --synthetic --windows 0", """'--windows': "0": must be at least 1"""),
        ("simulate --synthetic --zones x", "'--zones': 'x' is not one of 'apart', 'together'."),
        ("simulate --synthetic --load x", "--load: must be numbers with commas, such as 0.6,0.85; got 'x'"),
        ("watch --every x", """'--every': "x": must be a number"""),
        ("local build minikube", "'minikube' is not one of 'kubernetes', 'versitygw', 'prometheus'."),
    ],
)
def test_a_wrong_value_says_what_was_found_and_what_is_allowed(line: str, words: str) -> None:
    result = CliRunner().invoke(app, line.split())
    assert (result.exit_code, words in result.output) == (2, True), result.output
    assert "Input should" not in result.output
