"""What lies in a folder for a while and is never saved, and why: so that nobody believes that it is."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from holdfast_train.folder.layouts import Unit
from holdfast_train.folder.look import File

SECONDS: Final = 60.0  # without a change, before it is said
CHANGING_SECONDS: Final = 300.0  # of changes at each look, before it is said: a large checkpoint is written for minutes
WEIGHTS: Final = (
    ".safetensors", ".bin", ".npz", ".npy", ".pkl", ".msgpack", ".h5", ".keras", ".tar",
    ".ckpt", ".pt", ".pth", ".distcp",
)  # fmt: skip
_WHY: Final = {
    "HuggingFace": "its trainer_state.json is missing or torn",
    "Accelerate": "it has no random_states_0.pkl",
    "Distributed": "it has no .metadata",
    "Orbax": "it has no _CHECKPOINT_METADATA",
    "Files": "one of its files is not whole, or not there",
    "Pattern": "one of its files is not whole, or not there",
}


class Unknown:
    """Asked after each look. `pattern` is that of the job."""

    def __init__(self, pattern: str | None, clock: Callable[[], float]) -> None:
        self._pattern = pattern
        self._clock = clock
        self._seen: tuple[object, float] = (None, 0.0)
        self._waiting_since: float | None = None

    def forget(self) -> None:
        """A checkpoint is complete, and will be saved."""
        self._waiting_since = None

    def said(self, files: Mapping[str, File], units: Iterable[Unit], waiting: Unit | None, *, is_whole: bool) -> str:
        """Why nothing of the folder is saved, empty if that is not so.

        `waiting`: the newest unit, if it is not saved. `is_whole`: it has its mark, so it waits for a second look.
        """
        units = list(units)
        found = [] if units else [file for file in files.values() if file.path.lower().endswith(WEIGHTS)]
        newest = max(found, key=lambda file: (file.mtime_ns, file.path), default=None)
        what = waiting.signature if waiting is not None else newest.signature if newest is not None else None
        now = self._clock()
        if self._seen[0] != what:
            self._seen = (what, now)
        self._waiting_since = (
            None if waiting is None else self._waiting_since if self._waiting_since is not None else now
        )
        if waiting is not None and (is_whole or self._seen[1] == now) and self._waiting_since is not None:
            return _changing(waiting) if now - self._waiting_since >= CHANGING_SECONDS else ""
        if what is None or now - self._seen[1] < SECONDS:
            return ""
        if waiting is not None:
            return f"{_named(waiting)} did not change for {SECONDS:.0f} s, and cannot be saved: {_WHY[waiting.layout]}"
        if newest is None:
            return ""
        if self._pattern is not None:
            return f"no path fits checkpoint.pattern {_short(self._pattern)}; {_short(newest.path)} is not saved"
        return (
            f"{_short(newest.path)} is not saved: it is not a checkpoint of a kind that Holdfast knows; name the paths "
            "of checkpoints in checkpoint.pattern"
        )


def _named(unit: Unit) -> str:
    return f"the checkpoint {_short(unit.name)}" if unit.name else "the checkpoint files"


def _changing(unit: Unit) -> str:
    return (
        f"{_named(unit)} changed between any two looks for {CHANGING_SECONDS:.0f} s, and cannot be saved meanwhile; "
        "let the program save less often"
    )


def _short(name: str) -> str:
    return repr(name if len(name) <= 60 else f"...{name[-57:]}")
