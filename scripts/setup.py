"""Make .venv from the hash-locked requirement files. Standard library only: it runs before anything is installed.

    python3 scripts/setup.py        bring .venv up to date; fast if it already is
    python3 scripts/setup.py uv     print the path of the locked uv, installed on the first call
    python3 scripts/setup.py docs   the same with what builds the site of the documentation
    python3 scripts/setup.py versions   make .venv-versions: .venv with the libraries of requirements/versions.txt

uv lives in the user's cache, in a folder named after the hash of its lock file. It is built beside that folder and
renamed, so an interrupted build never leaves half a tool.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
EARLIER = ROOT / ".venv-versions"
EARLIER_LOCK = ROOT / "requirements" / "versions.txt"
STAMP = VENV / ".holdfast-lock"
DOCS_LOCK = ROOT / "requirements" / "docs.txt"
DOCS_STAMP = VENV / ".holdfast-docs-lock"
UV_LOCK = ROOT / "requirements" / "uv.txt"
PROJECTS = (
    ROOT,
    *(ROOT / "operator" / name for name in ("protocol", "cli", "local")),
    *(ROOT / "images" / name for name in ("trainer", "model")),
    ROOT / "tests" / "research",
)
LOCKED = (
    UV_LOCK,
    ROOT / "requirements" / "dev.txt",
    *(folder / "pyproject.toml" for folder in PROJECTS),
    Path(__file__).resolve(),
)
MINIMUM = (3, 11)


def say(text: str) -> None:
    """One line for people; standard output is for the answer."""
    sys.stderr.write(f"{text}\n")


def run(*command: str | Path) -> None:
    """Run a command. Ends this program, without a traceback, if it fails."""
    done = subprocess.run([str(part) for part in command], stdout=sys.stderr, check=False)
    if done.returncode != 0:
        sys.exit(f"setup: `{' '.join(map(str, command))}` failed with exit code {done.returncode}; its output is above")


def digest(*files: Path) -> str:
    """16 hexadecimal digits that change with the content of any file or with the Python that runs this."""
    total = hashlib.sha256(sys.version.encode())
    for file in files:
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


def cache_dir() -> Path:
    """`$HOLDFAST_CACHE`, otherwise `$XDG_CACHE_HOME/holdfast`, otherwise `~/.cache/holdfast`."""
    if chosen := os.environ.get("HOLDFAST_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "holdfast"


def uv() -> Path:
    """The locked uv, installed into the cache if it is not there yet."""
    folder = cache_dir() / f"uv-{digest(UV_LOCK)}"
    if (folder / "uv").exists():
        return folder / "uv"
    say("Installing uv (once) ...")
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".uv-", dir=folder.parent))
    try:
        install_uv(fresh / "env")
        (fresh / "tool").mkdir()
        shutil.copy2(fresh / "env" / "bin" / "uv", fresh / "tool" / "uv")
        try:
            (fresh / "tool").rename(folder)
        except OSError:
            if not (folder / "uv").exists():  # otherwise another process was faster, and its uv is as good as ours
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder / "uv"


def install_uv(target: Path) -> None:
    """Install the locked uv below `target`/bin, with pip where this Python has it, otherwise with a venv's own pip."""
    quiet = ("--quiet", "--disable-pip-version-check", "--root-user-action=ignore")
    locked = ("install", *quiet, "--no-deps", "--require-hashes", "-r", UV_LOCK)
    asked = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if asked.returncode == 0:
        run(sys.executable, "-m", "pip", *locked, "--target", target)
        return
    try:
        import ensurepip  # noqa: F401, PLC0415 - some distributions leave it out
    except ImportError:
        sys.exit("setup: this Python has neither pip nor venv; install them (on Debian: apt install python3-venv)")
    run(sys.executable, "-m", "venv", target)
    run(target / "bin" / "python", "-m", "pip", *locked)


def setup() -> None:
    """Bring .venv up to date."""
    wanted = digest(*LOCKED)
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    tool, python = uv(), VENV / "bin" / "python"
    say("Making .venv ...")
    if not python.exists():
        run(tool, "venv", "--quiet", "--python", sys.executable, VENV)
    STAMP.unlink(missing_ok=True)
    DOCS_STAMP.unlink(missing_ok=True)  # the sync below removes what only the documentation needs
    run(tool, "pip", "sync", "--quiet", "--python", python, "--require-hashes", ROOT / "requirements" / "dev.txt")
    # The build backend is locked and installed above, so nothing is fetched here.
    editable = [part for folder in PROJECTS for part in ("-e", folder)]
    run(tool, "pip", "install", "--quiet", "--python", python, "--no-deps", "--no-build-isolation", *editable)
    STAMP.write_text(wanted)
    say("Ready: .venv/bin/holdfast --help")


def docs() -> None:
    """Bring .venv up to date, with what builds the documentation. If nothing has changed, no network is needed."""
    setup()
    wanted = digest(DOCS_LOCK)
    if DOCS_STAMP.exists() and DOCS_STAMP.read_text() == wanted:
        return
    python = VENV / "bin" / "python"
    run(uv(), "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", DOCS_LOCK)
    DOCS_STAMP.write_text(wanted)


def earlier() -> None:
    """Make .venv-versions: its own packages come first, then those of .venv."""
    setup()
    tool, python = uv(), EARLIER / "bin" / "python"
    run(tool, "venv", "--quiet", "--clear", "--python", VENV / "bin" / "python", EARLIER)
    (here,) = EARLIER.glob("lib/python*/site-packages")
    there = VENV / here.relative_to(EARLIER)
    (here / "after.pth").write_text(f"import site; site.addsitedir({str(there)!r})\n")
    run(tool, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python", python, "-r", EARLIER_LOCK)


if __name__ == "__main__":
    if sys.version_info < MINIMUM:
        sys.exit(f"setup: Python {'.'.join(map(str, MINIMUM))} or newer is needed; this is {sys.version.split()[0]}")
    if sys.argv[1:] == ["uv"]:
        sys.stdout.write(f"{uv()}\n")
    elif sys.argv[1:] == ["docs"]:
        docs()
    elif sys.argv[1:] == ["versions"]:
        earlier()
    else:
        setup()
