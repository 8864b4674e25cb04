"""Test a package again where it is used: other machine, other processor, other versions, perhaps without torch."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from holdfast_model.package.errors import PackageError
from holdfast_model.package.folder import FILE, TESTS, Opened, open_package, others, verify, verify_variant
from holdfast_model.package.loader import Model, is_installed, is_runnable, may_run_code
from holdfast_model.package.problem import Arrays, check
from holdfast_model.package.variant_tests import Assessment, Bar, judge

MOST_DRIFT: Final = 0.05
"""Int8 kernels of other processors round otherwise: the agreement may be this much lower."""


def read_tests(package: Opened) -> tuple[list[Arrays], list[Arrays]]:
    """The inputs and expected outputs that a package has. PackageError if the file is missing or has changed."""
    from safetensors import SafetensorError  # noqa: PLC0415 - an extra
    from safetensors.numpy import load_file  # noqa: PLC0415

    tests = package.document["tests"]
    verify(package, {TESTS: tests})
    inputs: list[dict[str, Any]] = [{} for _ in tests["cases"]]
    outputs: list[dict[str, Any]] = [{} for _ in tests["cases"]]
    try:
        for key, array in load_file(package.folder / TESTS).items():
            number, side, name = key.split("/")
            {"in": inputs, "out": outputs}[side][int(number)][name] = array
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise PackageError(f"{package.folder / TESTS} is damaged: {type(error).__name__}: {error}") from error
    for case, (one, wanted) in enumerate(zip(inputs, outputs, strict=True)):
        sizes = check(f"test {case}", one, package.inputs, package.dims)
        check(f"the answer of test {case}", wanted, package.outputs, package.dims, sizes)
    return list(inputs), list(outputs)


def run_tests(
    folder: Path, progress: Callable[[str], None] = lambda _: None, *, run_code: bool = False
) -> dict[str, Assessment | str]:
    """By variant: what its test finds here, or in words why it cannot run. Hashes of all files are checked.

    `run_code`: also open files that may contain code, those of pt2.

    PackageError if the folder has a file that the package does not have, or if the tests or the pages have changed.

    The score needs the data of the problem, so it is not measured again: a variant that the score admitted has to agree
    with torch as it did when it was made.
    """
    package = open_package(folder)
    if more := others(package):
        raise PackageError(f"{folder} has {more[0]}, which {FILE} does not name; remove it, or copy the package again")
    verify(package, package.document.get("pages", {}))
    inputs, outputs = read_tests(package)
    found: dict[str, Assessment | str] = {}
    for name, entry in package.variants.items():
        progress(f"testing {name}")
        try:
            verify_variant(package, name)
        except PackageError as error:
            found[name] = Assessment(passed=False, why=str(error))
            continue
        if not is_runnable(entry):
            found[name] = "its files are intact; it does not run by itself"
        elif may_run_code(entry) and not run_code:
            found[name] = "its files are intact; it may contain code, and is tested only with --run-code"
        elif not is_installed(entry):
            found[name] = f"its files are intact; {entry['runtime']} is not installed here"
        else:
            found[name] = _run(package, name, entry, inputs, outputs)
    return found


def _run(package: Opened, name: str, entry: Any, inputs: list[Arrays], outputs: list[Arrays]) -> Assessment:
    fixed = entry.get("fixed", {})
    pairs = [
        (one, wanted) for one, wanted in zip(inputs, outputs, strict=True)
        if all(check("a case", one, package.inputs, package.dims)[s] == n for s, n in fixed.items())
    ]  # fmt: skip
    tolerance = float(entry["tolerance"]) if "tolerance" in entry else float("inf")
    tested = judge(
        lambda: Model(package, name, isolated=True, seconds=None),
        [one for one, _ in pairs],
        [wanted for _, wanted in pairs],
        Bar(tolerance),
    )
    then = entry["tested"].get("agreement")
    if not tested.passed or "tolerance" in entry or then is None or tested.agreement is None:
        return tested
    if tested.agreement >= float(then) - MOST_DRIFT:
        return tested
    why = f"outputs agree with torch by {tested.agreement:.1%}, and by {float(then):.1%} when it was made"
    return replace(tested, passed=False, why=why)
