"""The `holdfast` program, also `python -m holdfast_cli`."""

from holdfast_cli import kubectl_plugin as plugin
from holdfast_cli.main import app


def main(program: str = "holdfast") -> None:
    """Run the command that was typed, as `program`."""
    app(prog_name=program)


def kubectl_plugin() -> None:
    """The program `kubectl-holdfast`."""
    main(plugin.PROGRAM)


def kubectl_completion() -> None:
    """The program `kubectl_complete-holdfast`."""
    plugin.complete(main)


if __name__ == "__main__":
    main()
