"""The `holdfast` program, also `python -m holdfast.cli`. Without the extra `cli` it says what to install."""

import sys


def main(program: str = "holdfast") -> None:
    """Run the command that was typed, as `program`."""
    try:
        from holdfast.cli.main import app  # noqa: PLC0415 - the check comes first
    except ModuleNotFoundError as missing:
        if str(missing.name).partition(".")[0] not in ("rich", "typer"):
            raise
        sys.exit("error: the `holdfast` command needs the extra `cli`: install `holdfast[cli]`, or '.[cli]' in a clone")
    app(prog_name=program)


def kubectl_plugin() -> None:
    """The program `kubectl-holdfast`."""
    main("kubectl holdfast")


def kubectl_completion() -> None:
    """The program `kubectl_complete-holdfast`."""
    from holdfast.cli.kubectl_plugin import complete  # noqa: PLC0415 - as in main

    complete(main)


if __name__ == "__main__":
    main()
