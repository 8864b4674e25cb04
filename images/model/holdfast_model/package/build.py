"""Make a package: the variants of a model, each tested in a process of its own, and the folder around them.

Nothing is half-written: the folder is made beside its place, and gets its name when all of it is there.
"""

import errno
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from holdfast_model.package.convert import CALIBRATION, COMMAND, Conversion, filled
from holdfast_model.package.errors import PackageError, ProblemError
from holdfast_model.package.folder import (
    FILE,
    README,
    REPORT,
    TESTS,
    Opened,
    file_entry,
    open_package,
    verify,
    write_json,
)  # fmt: skip
from holdfast_model.package.inputs_to_test import inputs_to_test
from holdfast_model.package.loader import Model
from holdfast_model.package.model_card import readme
from holdfast_model.package.problem import Arrays, Call, Problem, Score, check
from holdfast_model.package.record import Origin, Tests, made_document
from holdfast_model.package.report_page import report_page
from holdfast_model.package.variant_tests import Assessment, Bar, judge, measured
from holdfast_model.package.variants import (
    FIXED,
    VARIANTS,
    WEIGHTS,
    Source,
    Variant,
    call_of,
    make_by_command,
    save_arrays,
    tied_names,
)
from holdfast_model.user_code import words_of
from holdfast_train.errors import HoldfastTrainError, StateError

CALL_SECONDS: Final = 600.0


@dataclass(frozen=True)
class Built:
    """A package that was made. `failed`: variants that are not in it, with the reason."""

    package: Opened
    failed: Mapping[str, str]


def choose(
    problem: Problem,
    wanted: Sequence[str] | None,
    fixed: Mapping[str, int],
    converted: Sequence[Conversion] = (),
) -> list[str]:
    """The variants to make: the wanted ones with those that they are made of, by default all that can be made.

    `converted`: variants that commands make; what they are made of is made too.

    PackageError names a variant that does not exist, or a symbol of `fixed` that the problem lacks.
    """
    for symbol, size in fixed.items():
        if symbol not in problem.dims:
            known = ", ".join(problem.dims) or "none"
            raise PackageError(f"the problem has no symbol {symbol!r} to fix; it has: {known}")
        least, most = problem.dims[symbol]
        if not least <= size <= most:
            raise PackageError(f"{symbol} = {size} cannot be fixed; allowed: {least} to {most}")
    needed = {need for one in converted for need in _sources(problem, one, fixed)}
    if wanted is None:
        return [name for name in VARIANTS if name != FIXED or fixed]
    for name in wanted:
        if name not in VARIANTS:
            raise PackageError(f"there is no variant {name!r}; allowed: {', '.join(VARIANTS)}")
        if name == FIXED and not fixed:
            raise PackageError(f"the variant {FIXED} needs a size for at least one symbol, as batch=1")
    needed |= {need for name in (*wanted, *needed) if (need := VARIANTS[name].needs)}
    return [name for name in VARIANTS if name in wanted or name in needed]


def _sources(problem: Problem, one: Conversion, fixed: Mapping[str, int]) -> set[str]:
    """The variants that a conversion is made of. PackageError if it needs sizes or data that are not given."""
    if one.is_fixed and not fixed:
        raise PackageError(
            f"--convert {one.name!r} is made of fixed sizes: give one for at least one symbol, as batch=1"
        )
    if CALIBRATION in one.places and problem.calibration is None:
        raise PackageError(f"--convert {one.name!r} asks for calibration data, which the problem lacks")
    return {name for name in VARIANTS if name in one.places}


def build(
    problem: Problem,
    module: nn.Module,
    origin: Origin,
    folder: Path,
    *,
    variants: Sequence[str] | None = None,
    fixed: Mapping[str, int] | None = None,
    converted: Sequence[Conversion] = (),
    keep_failed: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Built:
    """Make a package of `module`, which has its weights, in the new folder `folder`.

    `variants`: some of VARIANTS; default all. `fixed`: sizes of symbols in the variant onnx-fixed. `converted`:
    variants that commands make. `keep_failed`: leave variants that failed in the package, marked as failed. `progress`
    is told what is done now.

    PackageError if the folder exists or a name is wrong; ProblemError if the model does not do what the problem says.
    """
    if os.path.lexists(folder):
        raise PackageError(f"{folder} exists already: use another name, or remove it first")
    names = choose(problem, variants, fixed or {}, converted)
    module = module.eval()
    call = call_of(problem, module)
    with _place(folder) as place, _deterministic():
        progress("running the test inputs in torch")
        inputs, left_out = inputs_to_test(problem, fixed)
        expected = [_checked(problem, call, one) for one in inputs]
        reference = _reference(problem.score, call) if problem.score else None
        _write_tests(place / TESTS, inputs, expected)
        maker = _Maker(problem, module, place, fixed or {}, inputs, expected, reference, progress)
        made = {name: maker.make(name) for name in names}
        failed = {name: tested.why for name, (_, tested) in made.items() if tested.why}
        by_command = {one.name: maker.convert(one, failed) for one in converted}
        failed |= {name: tested.why for name, (_, tested) in by_command.items() if tested and tested.why}
        asked = set(variants or names)
        entries = {name: maker.entry(name, *made[name]) for name in names if name in asked}
        entries |= {one.name: maker.converted_entry(one, *by_command[one.name]) for one in converted}
        for name in [*names, *by_command]:
            if name not in entries or (name in failed and not keep_failed):
                shutil.rmtree(place / name, ignore_errors=True)
                entries.pop(name, None)
        tests = Tests(place / TESTS, inputs, left_out)
        document = made_document(folder.name, origin, problem, tests, reference=reference, variants=entries)
        document |= {"failed": failed} if failed else {}
        (place / README).write_text(readme(document, failed), encoding="utf-8")
        (place / REPORT).write_text(report_page(document, failed), encoding="utf-8")
        write_json(place, document | {"pages": {name: file_entry(place / name) for name in (README, REPORT)}})
        _let_others_read(place)
    package = open_package(folder)
    for entry in package.variants.values():
        verify(package, entry["files"])
    return Built(package, failed)


@contextmanager
def _place(folder: Path) -> Iterator[Path]:
    """A new folder that gets its name at the end. PackageError if another process was faster."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        place = Path(temporary) / "package"
        place.mkdir()
        yield place
        try:
            os.rename(place, folder)  # noqa: PTH104 - Path.rename is the same; this one fails on a folder that is not empty
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            raise PackageError(f"{folder} was made by another process meanwhile") from error


def _let_others_read(place: Path) -> None:
    """Give every file what the umask gives: some libraries write files that only their owner can read."""
    mode = (place / FILE).stat().st_mode
    for path in place.rglob("*"):
        if path.is_file():
            path.chmod(path.stat().st_mode | mode)


@contextmanager
def _deterministic() -> Iterator[None]:
    """The module in torch answers the same on each call, also if it draws random numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def _checked(problem: Problem, call: Callable[[Arrays], Arrays], inputs: Arrays) -> Arrays:
    """What the model in torch answers. ProblemError if it is not what the problem says."""
    sizes = check("a case", inputs, problem.inputs, problem.dims)
    try:
        made = call(inputs)
        check("the answer of the model in torch", made, problem.outputs, problem.dims, sizes)
    except PackageError as error:
        raise ProblemError(f"{error}; correct the outputs of the problem, or the model") from error
    except Exception as error:  # of the user's module
        at = ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items())
        raise ProblemError(
            f"the model in torch fails at {at}: {words_of(error)}; correct dims, or the model"
        ) from error
    return made


def _reference(score: Score, call: Call) -> float:
    """The score of the model in torch. ProblemError if it is not a number: no variant could be compared with it."""
    found = measured(score, call)
    if not math.isfinite(found):
        raise ProblemError(f"the score {score.name} of the model in torch is {found}; it has to be a finite number")
    return found


def _write_tests(file: Path, inputs: Sequence[Arrays], expected: Sequence[Arrays]) -> None:
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for number, (one, wanted) in enumerate(zip(inputs, expected, strict=True)):
        for side, values in (("in", one), ("out", wanted)):
            arrays |= {f"{number}/{side}/{name}": np.ascontiguousarray(value) for name, value in values.items()}
    save_arrays(arrays, file)


@dataclass(frozen=True)
class _Maker:
    problem: Problem
    module: nn.Module
    place: Path
    fixed: Mapping[str, int]
    inputs: Sequence[Arrays]
    expected: Sequence[Arrays]
    reference: float | None
    progress: Callable[[str], None]

    def make(self, name: str) -> tuple[str, Assessment]:
        """Make and test one variant. The note is for people."""
        variant = VARIANTS[name]
        file = self.place / variant.model
        file.parent.mkdir()
        if variant.needs and not (self.place / VARIANTS[variant.needs].model).exists():
            return "", Assessment(passed=False, why=f"it is made of {variant.needs}, which could not be made")
        self.progress(f"making {name}")
        try:
            note = variant.make(self._source(), file)
        except Exception as error:  # noqa: BLE001 - exporters raise anything; the variant is left out and named
            return "", Assessment(passed=False, why=f"it could not be made: {_why(error)}"[:500])
        self.progress(f"testing {name}")
        return note, self._test(name, variant)

    def _source(self) -> Source:
        example = next((one for one in self.inputs if min(self._sizes(one).values(), default=2) > 1), self.inputs[0])
        return Source(self.problem, self.module, example, self.place, self.fixed)

    def _sizes(self, inputs: Arrays) -> dict[str, int]:
        return check("a case", inputs, self.problem.inputs, self.problem.dims)

    def _test(self, name: str, variant: Variant) -> Assessment:
        if variant.runtime == WEIGHTS:
            return self._test_weights()
        entry = {"runtime": variant.runtime, "model": variant.model} | ({"fixed": self.fixed} if name == FIXED else {})
        return self._judged(
            name, entry, Bar(variant.tolerance, None if name == FIXED else self.problem.score, self.reference)
        )

    def _judged(self, name: str, entry: Mapping[str, Any], bar: Bar, command: Sequence[str] = ()) -> Assessment:
        """Run a variant on the cases that have its fixed sizes. `command`: of its worker, if it has another one."""
        opened = Opened(
            self.place, {"variants": {name: entry}}, self.problem.inputs, self.problem.outputs, self.problem.dims
        )
        fixed = entry.get("fixed", {})
        pairs = [
            (one, wanted) for one, wanted in zip(self.inputs, self.expected, strict=True)
            if all(self._sizes(one)[symbol] == size for symbol, size in fixed.items())
        ]  # fmt: skip
        return judge(
            lambda: Model(opened, name, isolated=True, seconds=CALL_SECONDS, command=command),
            [one for one, _ in pairs],
            [wanted for _, wanted in pairs],
            bar,
        )

    def convert(self, one: Conversion, failed: Collection[str]) -> tuple[str, Assessment | None]:
        """Make one variant by a command, and test it if there is a worker for it. The note is for people.

        `failed`: variants that did not pass, of which nothing is made.
        """
        if wrong := sorted(one.places.intersection(failed)):
            return "", Assessment(passed=False, why=f"it is made of {wrong[0]}, which did not pass")
        self.progress(f"making {one.name}")
        file = self.place / one.model
        file.parent.mkdir()
        try:
            make_by_command(one, self._source(), file)
        except (PackageError, StateError) as error:
            shutil.rmtree(file.parent)  # half a file, or a link out of the package
            return "", Assessment(passed=False, why=f"it could not be made: {error}"[:500])
        note = "made by a command"
        if not one.run:
            return f"{note}; not tested, because nothing was given that runs it", None
        self.progress(f"testing {one.name}")
        bar = Bar(None, None if one.is_fixed else self.problem.score, self.reference)
        command = filled(
            one.run,
            {"file": str(file), "inputs": ",".join(self.problem.inputs), "outputs": ",".join(self.problem.outputs)},
        )
        return note, self._judged(one.name, self._converted(one), bar, command)

    def _converted(self, one: Conversion) -> dict[str, Any]:
        return {"runtime": COMMAND, "model": one.model} | ({"fixed": dict(self.fixed)} if one.is_fixed else {})

    def converted_entry(self, one: Conversion, note: str, tested: Assessment | None) -> dict[str, Any]:
        """As in package.json. A variant that nothing ran has no test: it did not pass."""
        said = self._converted(one) | {"files": self._files(one.name), "tested": tested.entry() if tested else None}
        return said | ({"note": note} if note else {})

    def _files(self, folder: str) -> dict[str, Any]:
        """Size and hash of each file of a variant, by its path."""
        files = sorted(path for path in (self.place / folder).rglob("*") if path.is_file())
        return {str(path.relative_to(self.place)): file_entry(path) for path in files}

    def _test_weights(self) -> Assessment:
        """Read the file again: every tensor of the model is there bit for bit, and no other one."""
        from safetensors.torch import load_file  # noqa: PLC0415 - an extra

        wanted = self._source().tensors()
        found = load_file(self.place / VARIANTS["safetensors"].model)
        whole = found | {name: found[twin] for name, twin in tied_names(wanted).items() if twin in found}
        why = ""
        if missing := [name for name in wanted if name not in whole]:
            why = f"{missing[0]} is missing in the file"
        elif other := [name for name in whole if name not in wanted]:
            why = f"{other[0]} is in the file, and the model has no such tensor"
        elif bad := [name for name, tensor in whole.items() if not _is_same(tensor, wanted[name])]:
            why = f"{bad[0]} is not what the model has"
        return Assessment(not why, why=why)

    def entry(self, name: str, note: str, tested: Assessment) -> dict[str, Any]:
        """As in package.json."""
        variant = VARIANTS[name]
        said: dict[str, Any] = {
            "runtime": variant.runtime, "precision": variant.precision, "model": variant.model,
            "files": self._files(name),
            "tested": tested.entry(),
        }  # fmt: skip
        if variant.tolerance is not None:
            said["tolerance"] = f"{variant.tolerance:g}"
        if name == FIXED:
            said["fixed"] = dict(self.fixed)
        return said | ({"note": note} if note else {})


def _why(error: BaseException) -> str:
    """What an exporter says. Its own error often only names a step; the cause says what the model has that it lacks."""
    while error.__cause__ is not None and not isinstance(error, HoldfastTrainError):
        error = error.__cause__
    return str(error) if isinstance(error, HoldfastTrainError) else words_of(error)


def _is_same(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    return found.dtype == wanted.dtype and torch.equal(found, wanted)
