"""`launcher_file`: the modules of the launcher as one file that python3 runs."""

import io
import zipfile
from pathlib import Path
from typing import Final

import holdfast_protocol
from holdfast_train.pod import launcher

PACKAGE: Final = "holdfast_launcher"
MAIN: Final = f"import sys\n\nfrom {PACKAGE}.command import main\n\nsys.exit(main())\n"
HOOK: Final = Path(__file__).with_name("spare_hook.py")  # not imported here: it is sitecustomize of a waiting process
EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the first date that a zip file can have


def launcher_file() -> bytes:
    """A zip file with the modules of the launcher and of the protocol, the same bytes each time.

    python3 puts the file itself first on its search path, in place of the folder of a script: no module of the user has
    precedence over one of the launcher. Nothing is compressed, so a python3 without zlib can read it.
    """
    content = {"__main__.py": MAIN.encode()}
    content["sitecustomize.py"] = HOOK.read_bytes()
    for name, package in ((PACKAGE, launcher), (holdfast_protocol.__name__, holdfast_protocol)):
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            content[f"{name}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        for name, text in content.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text)
    return data.getvalue()
