"""A program of the zoo: what starts it, where it saves, and what it promises when it resumes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Literal

DRIVERS = Path(__file__).parent / "programs"
DATA = Path(__file__).parent / "data"


def nothing(work: Path) -> None:
    """Prepare nothing: the program makes its own data."""


@dataclass(frozen=True, slots=True)
class Program:
    """A public training program.

    `command`: one line for `sh -c`, with `$folder`, `$work`, `$drivers` (tests/zoo/programs), `$data` (tests/zoo/data),
    and `$newest`: the newest save, HOLDFAST_NEWEST_CHECKPOINT. It stands in `${newest:+...}` if the program takes it as
    an option, and `takes_newest` says so.
    `prepare` makes data and models in the working directory; it runs in this Python, `prepare_command` in the
    environment. `saves`: patterns of glob below the folder, of which each match is a save. `resumed`: a regular
    expression that the output of a start has if it resumed, and only then. `final`: a pattern for the files, below the
    folder, whose bytes are compared by the plain check.

    `promise`: after an interruption the program ends `exact`, with the losses and weights of one that nobody
    interrupted; within the relative `tolerance`; or it only `resumes` from its newest save. `why` says where that is
    known from. `cause`: if a rehearsal does not say exact, what in the program is the cause.

    `package`: what its version is taken from; by default the name. `pattern`: `checkpoint.pattern`, for saves whose
    format is not known. `exclude`: `checkpoint.exclude`. `ignore`: files that are not compared, such as one with the
    options of the last start. `pause`: seconds that our driver waits in each step, so that two seconds or more pass
    between two saves.
    """

    name: str
    group: str
    command: str
    saves: tuple[str, ...]
    resumed: str
    steps: int
    promise: Literal["exact", "tolerance", "resumes"]
    why: str
    prepare: Callable[[Path], None] = nothing
    prepare_command: str = ""
    tolerance: float = 0.0
    folder: str = "out"
    final: str = ""
    patterns: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    takes_newest: bool = False
    saves_on_sigterm: bool = False
    pause: float = 0.0
    package: str = ""
    pattern: str = ""
    exclude: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    cause: str = ""
    nodes: tuple[int, ...] = (1,)

    def line(self, work: Path, *, of: str = "") -> str:
        """The command, or `of` in its place, for `sh -c` in the folder `work`."""
        values = {"folder": str(self.folder_in(work)), "work": str(work), "drivers": str(DRIVERS), "data": str(DATA)}
        newest = {"newest": "$HOLDFAST_NEWEST_CHECKPOINT"}
        text = (of or self.command).replace("${newest:+", "${HOLDFAST_NEWEST_CHECKPOINT:+")
        return Template(text).safe_substitute(values | newest)

    def folder_in(self, work: Path) -> Path:
        """`checkpoint.folder` of the program that works in `work`."""
        return work / self.folder


def variables(environment: Path, program: Program) -> dict[str, str]:
    """The environment variables of the program: one thread, no network, no GPU."""
    cache = environment / "cache"
    return {
        "PATH": f"{environment / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "VIRTUAL_ENV": str(environment),
        "HOME": str(cache),
        "XDG_CACHE_HOME": str(cache),
        "XDG_CONFIG_HOME": str(cache / "config"),
        "HF_HOME": str(cache / "hf"),
        "MPLCONFIGDIR": str(cache / "matplotlib"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONHASHSEED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "",
        "ACCELERATE_USE_CPU": "true",
        "MASTER_ADDR": "127.0.0.1",
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"),
        **dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "WANDB_MODE": "disabled",
        "KERAS_BACKEND": "torch",
        "JAX_PLATFORMS": "cpu",
        "LANG": "C.UTF-8",
        "ZOO_PAUSE": str(program.pause),
        **program.environment,
    }
