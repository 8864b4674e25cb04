"""The generated command reference."""

import re

from scripts.generate import commands_page

from holdfast.runtime.command import options


# Breaks if a command is left out of the documentation, or shown under another name than it has.
def test_every_command_is_there() -> None:
    page = commands_page.markdown()
    for command in ("watch", "describe", "checkpoint", "move", "check", "demo", "version", "local up"):
        assert f"## holdfast {command}\n" in page
        assert f"Usage: holdfast {command} " in page
    assert "holdfast holdfast" not in page


# Breaks if a setting of the operator is left out of the documentation.
def test_every_option_of_the_operator_is_there() -> None:
    page = commands_page.markdown()
    for option in options():
        assert f"| `{option.flag} {option.metavar}` | `{option.variable}` |" in page
    assert "## holdfast-operator release\n" in page


def test_no_line_ends_in_blanks() -> None:
    assert not [line for line in commands_page.markdown().splitlines() if line != line.rstrip()]


# Breaks if the help of an option or argument that may be repeated shows a type of Python, such as list[Path].
def test_no_type_of_python_is_shown_for_values_that_repeat() -> None:
    assert re.findall(r"<list\[\w+\]>", commands_page.markdown()) == []
