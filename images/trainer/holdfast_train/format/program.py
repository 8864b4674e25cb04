"""Facts about a program that a resume compares with those in the checkpoint, and the rules for changes."""

import dataclasses
import enum
import hashlib
import json
import platform
import sys
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Final, Literal, TypeAlias

from holdfast_protocol.settings import Settings
from holdfast_train.errors import StateError
from holdfast_train.format.revision import revision_of_program

Severity: TypeAlias = Literal["refuse", "warn", "ignore"]
DIGITS: Final = 12  # of the hash of one value of the configuration: enough to detect a change
SHOWN: Final = 6  # changed values that a message names
CONFIG: Final = "config"
DATA: Final = "data/"
SAMPLER_STATE: Final = frozenset({"step", "seed", "batch", "samples", "order"})  # keys of the state of ElasticSampler
IMPORTED: Final = "imported"
ENDED: Final = "ended"
CODE: Final = "code"
DEPENDENCIES: Final = "dependencies"
OBJECT: Final = "object/"  # only in comparisons: a manifest lists its objects as state
ALWAYS_REFUSED: Final = frozenset({"SeedChanged", "BatchChanged"})  # no sampler could continue


@dataclass(frozen=True)
class Program:
    """Facts in a checkpoint about the program that saved it: `versions` and `program` of its manifest.

    Keys of `words`: `config` (SHA-256 of the canonical configuration), `config/KEY` (of each value, 12 hex digits: they
    show which value changed without revealing it), `revision`, `ranks`, `nodes`, `device`, `data/NAME/...` for each
    object NAME with a `fingerprint()`, `code` and `dependencies` (the hashes of `trainer.code`), `imported` (the
    source's format) of an imported checkpoint, and `ended` (the UID of the job whose training ended with this
    checkpoint). Unknown facts are missing.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """A change since the checkpoint. `sentence` says what was, what is, and the consequence."""

    rule: str
    severity: Severity
    sentence: str


def describe(
    *,
    config: Any = None,
    objects: Mapping[str, object] | None = None,
    ranks: int = 1,
    nodes: int = 1,
    code: Mapping[str, str] | None = None,
) -> Program:
    """The facts about this program. `config`: a mapping, dataclass or argparse.Namespace of plain values.

    `code`: those of `of_code`.

    StateError names a value of the configuration that is not plain, or an object whose fingerprint is not text.
    """
    words = {"ranks": str(ranks), "nodes": str(nodes), "device": _device(), **(code or {})}
    if (revision := revision_of_program()) is not None:
        words["revision"] = revision
    if config is not None:
        words |= _config_words(config)
    for name, thing in (objects or {}).items():
        words |= _data_words(name, thing)
    return Program(versions(), words)


def of_code(settings: Settings) -> dict[str, str]:
    """What a checkpoint says of `trainer.code`."""
    found = {CODE: settings.code, DEPENDENCIES: settings.dependencies}
    return {word: sha256 for word, sha256 in found.items() if sha256 is not None}


def with_objects(program: Program, names: Iterable[str]) -> Program:
    """`program` with the names of its objects, so that `compare` finds those that were added or removed."""
    return replace(program, words={**program.words, **{f"{OBJECT}{name}": name for name in names}})


def versions() -> dict[str, str]:
    """Versions of Python and of the loaded libraries that compute the numbers."""
    found = {"python": platform.python_version()}
    for name in ("torch", "numpy"):
        if name in sys.modules:
            found[name] = str(getattr(sys.modules[name], "__version__", ""))
    torch: Any = sys.modules.get("torch")
    cuda = None if torch is None else torch.version.cuda
    return found if cuda is None else {**found, "cuda": str(cuda)}


def _device() -> str:
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return f"CPU {platform.machine()}"


# The configuration.


def _config_words(config: Any) -> dict[str, str]:
    plain = _plain(config, CONFIG)
    leaves = {f"{CONFIG}/{key}": _hash(value)[:DIGITS] for key, value in _leaves(plain)}
    return {CONFIG: _hash(plain), **leaves}


def _plain(value: Any, path: str) -> Any:
    """`value` in JSON types. 1.0 becomes 1: YAML and command lines do not distinguish them."""
    if value is None or isinstance(value, (bool, str, int)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, enum.Enum):
        return _plain(value.value, path)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Namespace):
        value = vars(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(of_key, f"{path}/{key}") for key, of_key in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{path}/{number}") for number, item in enumerate(value)]
    raise StateError(
        f"{path} is a {type(value).__name__}; allowed in a configuration: numbers, strings, paths, lists, tuples, "
        f"mappings, dataclasses and argparse namespaces. Leave it out, or use its name"
    )


def _leaves(plain: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(plain, dict) and plain:
        return [leaf for key in plain for leaf in _leaves(plain[key], f"{path}/{key}" if path else key)]
    return [(path, plain)]


def _hash(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _data_words(name: str, thing: object) -> dict[str, str]:
    fingerprint = getattr(thing, "fingerprint", None)
    if not callable(fingerprint):
        return {}
    found = fingerprint()
    words = {f"{DATA}{name}/{key}": value for key, value in found.items()} if isinstance(found, Mapping) else None
    words = {f"{DATA}{name}": found} if words is None else words
    for word, value in words.items():
        if not isinstance(value, str):
            raise StateError(f"fingerprint() of {name!r} returns a {type(value).__name__} for {word}; allowed: text")
    return words


def data_facts(words: Mapping[str, str], states: Mapping[str, Any]) -> dict[str, str]:
    """The facts about data that an import keeps: those in `words`, and those in states of `ElasticSampler`.

    Without seed and batch: a sampler without a state of its own may have others.
    """
    found = {
        f"{DATA}{name}/{key}": str(state[key])
        for name, state in states.items()
        if isinstance(state, Mapping) and state.keys() >= SAMPLER_STATE
        for key in ("samples", "data")
        if state.get(key) is not None
    }
    kept = {word: value for word, value in words.items() if word.startswith(DATA) and not _is_order(word)}
    return {**found, **kept}


def _is_order(word: str) -> bool:
    """True if a fact about data decides which samples a step has: no sampler could continue after a change."""
    return word.rpartition("/")[2] in ("seed", "batch")


# The rules.


def _config_changed(saved: Program, now: Program) -> str | None:
    if CONFIG not in saved.words or CONFIG not in now.words or saved.words[CONFIG] == now.words[CONFIG]:
        return None
    keys = sorted(k for k in {*saved.words, *now.words} if k.startswith(f"{CONFIG}/"))
    changed = [k.removeprefix(f"{CONFIG}/") for k in keys if saved.words.get(k) != now.words.get(k)]
    more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return f"these values of the configuration have changed since the checkpoint: {', '.join(changed[:SHOWN])}{more}"


def _object_added(saved: Program, now: Program) -> str | None:
    names = None if IMPORTED in saved.words else _objects(now, without=saved)
    return (
        names
        and f"Run is given {names}, which the checkpoint does not contain: training would go on with its initial state"
    )


def _object_removed(saved: Program, now: Program) -> str | None:
    names = _objects(saved, without=now)
    return (
        names
        and f"the checkpoint contains {names}, which Run is not given: it is not restored, and not saved from now on"
    )


def _objects(program: Program, *, without: Program) -> str | None:
    """The objects of one program that the other lacks, None if there are none."""
    names = [n for word, n in program.words.items() if word.startswith(OBJECT) and word not in without.words]
    return ", ".join(map(repr, names)) or None


def _revision_changed(saved: Program, now: Program) -> str | None:
    pair = _pair(saved.words, now.words, "revision")
    return pair and f"the program's revision is {pair[1][:DIGITS]}, the checkpoint's was {pair[0][:DIGITS]}"


def _code_changed(saved: Program, now: Program) -> str | None:
    pair = _pair(saved.words, now.words, CODE)
    return pair and (
        f"the folder of the program (trainer.code) is {pair[1][:DIGITS]}, the checkpoint's was {pair[0][:DIGITS]}; "
        f"`holdfast checkpoints show --code DIR` writes that one"
    )


def _dependencies_changed(saved: Program, now: Program) -> str | None:
    if CODE not in saved.words or CODE not in now.words:
        return None
    was, is_now = (one.words.get(DEPENDENCIES, "none")[:DIGITS] for one in (saved, now))
    return (
        None
        if was == is_now
        else (
            f"the packages of trainer.code.dependencies are {is_now}, the checkpoint's were {was}: numbers may differ"
        )
    )


def _seed_changed(saved: Program, now: Program) -> str | None:
    what = _data(saved, now, lambda word: word.endswith("/seed"))
    return what and f"{what}: each step would see other samples, some samples of this epoch twice and some not at all"


def _batch_changed(saved: Program, now: Program) -> str | None:
    what = _data(saved, now, lambda word: word.endswith("/batch"))
    return what and f"{what}: the same step would be another place in the data, with gradients over other batches"


def _data_changed(saved: Program, now: Program) -> str | None:
    what = _data(saved, now, lambda word: not _is_order(word))
    return what and f"{what}: training continues with other data"


def _world_changed(saved: Program, now: Program) -> str | None:
    pair = _pair(saved.words, now.words, "ranks")
    return pair and (
        f"there are {pair[1]} ranks, the checkpoint's program had {pair[0]}: with an ElasticSampler each step has the "
        f"same samples, but sums are rounded in another order: sample-exact, not bitwise"
    )


def _nodes_changed(saved: Program, now: Program) -> str | None:
    if _pair(saved.words, now.words, "ranks"):
        return None  # WorldSizeChanged reports it
    pair = _pair(saved.words, now.words, "nodes")
    return pair and (
        f"the ranks are on {pair[1]} nodes, they were on {pair[0]}: sums over ranks may be rounded in another order"
    )


def _device_changed(saved: Program, now: Program) -> str | None:
    pair = _pair(saved.words, now.words, "device")
    return pair and f"the device is {pair[1]}, the checkpoint's was {pair[0]}: numbers may differ in the last bits"


def _major_changed(saved: Program, now: Program) -> str | None:
    what = _libraries(saved, now, lambda was, now: _major(was) != _major(now))
    return what and f"{what}: another major version may interpret state differently; check the first losses"


def _library_changed(saved: Program, now: Program) -> str | None:
    what = _libraries(saved, now, lambda was, now: _major(was) == _major(now))
    return what and f"{what}: numbers may differ in the last bits"


RULES: Final[Mapping[str, tuple[Severity, Callable[[Program, Program], str | None]]]] = {
    "SeedChanged": ("refuse", _seed_changed),
    "BatchChanged": ("refuse", _batch_changed),
    "ObjectAdded": ("refuse", _object_added),
    "ObjectRemoved": ("warn", _object_removed),
    "DataChanged": ("warn", _data_changed),
    "ConfigChanged": ("warn", _config_changed),
    "RevisionChanged": ("warn", _revision_changed),
    "CodeChanged": ("warn", _code_changed),
    "DependenciesChanged": ("warn", _dependencies_changed),
    "WorldSizeChanged": ("warn", _world_changed),
    "NodesChanged": ("warn", _nodes_changed),
    "DeviceChanged": ("warn", _device_changed),
    "MajorVersionChanged": ("warn", _major_changed),
    "VersionChanged": ("warn", _library_changed),
}


def compare(saved: Program, now: Program, rules: Mapping[str, Severity] | None = None) -> list[Finding]:
    """The changes since the checkpoint, in the order of RULES.

    `rules` changes the severity of rules. A fact that one side lacks is not compared, except for packages. Errors: see
    `check_rules`.
    """
    severities = check_rules(rules or {})
    found = ((name, severities[name], rule(saved, now)) for name, (_, rule) in RULES.items())
    return [Finding(name, severity, words) for name, severity, words in found if words and severity != "ignore"]


def check_rules(rules: Mapping[str, Severity]) -> dict[str, Severity]:
    """The severity of every rule, after the changes in `rules`.

    StateError if a rule does not exist, or if it always refuses.
    """
    severities = {name: severity for name, (severity, _) in RULES.items()}
    for name, severity in rules.items():
        if name not in RULES:
            raise StateError(f"there is no resume rule {name!r}; allowed: {', '.join(RULES)}")
        if severity not in ("refuse", "warn", "ignore"):
            raise StateError(f"resume rule {name} is {severity!r}; allowed: refuse, warn, ignore")
        if name in ALWAYS_REFUSED and severity != "refuse":
            raise StateError(
                f"resume rule {name} is {severity!r}; it always refuses, because the same step would have other samples"
            )
        severities[name] = severity
    return severities


def refusal(findings: Collection[Finding]) -> str | None:
    """The message of the error that ends the start if a finding refuses; None if training may continue."""
    refused = [finding for finding in findings if finding.severity == "refuse"]
    if not refused:
        return None
    sentences = "; ".join(f"{finding.rule}: {finding.sentence}" for finding in refused)
    if {finding.rule for finding in refused} & ALWAYS_REFUSED:
        return f"{sentences}. Undo this change; start a training with other data on another prefix"
    accept = ", ".join(f'"{finding.rule}": "warn"' for finding in refused)
    return f"{sentences}. Undo this change, or accept it with Run(rules={{{accept}}}, ...)"


def _pair(saved: Mapping[str, str], now: Mapping[str, str], word: str) -> tuple[str, str] | None:
    """The old and the new value of `word`, if both are known and differ."""
    if word not in saved or word not in now or saved[word] == now[word]:
        return None
    return saved[word], now[word]


def _data(saved: Program, now: Program, wanted: Callable[[str], bool]) -> str | None:
    words = [word for word in saved.words if word.startswith(DATA) and wanted(word)]
    pairs = [(word.removeprefix(DATA), pair) for word in words if (pair := _pair(saved.words, now.words, word))]
    return "; ".join(f"{word} is {pair[1]}, the checkpoint's was {pair[0]}" for word, pair in pairs) or None


def _libraries(saved: Program, now: Program, wanted: Callable[[str, str], bool]) -> str | None:
    pairs = [(name, pair) for name in saved.versions if (pair := _pair(saved.versions, now.versions, name))]
    return "; ".join(f"{name} is {pair[1]}, was {pair[0]}" for name, pair in pairs if wanted(*pair)) or None


def _major(version: str) -> str:
    return version.partition(".")[0]
