"""Data-loader workers that stay while their rank saves.

torchrun sends SIGTERM to the whole process group of a rank. torch's data-loader workers have a C handler that ends
them; then the rank raises "DataLoader worker exited unexpectedly" before it has saved. Ignoring the signal would not
work: the rank itself ends its workers with SIGTERM (when a loader is closed or the interpreter exits), and would wait
forever for a worker that ignores it. So a worker checks the sender of the signal: it ends only if its parent sent it.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

MODULE: Final = "torch.utils.data._utils.worker"

_original: list[Any] = []


def obey_parent_only() -> None:
    """Make SIGTERM end this data-loader worker only if its parent sent it. Also usable in a `worker_init_fn`."""
    parent = os.getppid()
    # Blocked here, before this process has other threads, so that only sigwaitinfo receives it: a Python handler does
    # not get the sender.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    # Under spawn, libraries may have started threads in which it is not blocked: there the signal is ignored.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def wait() -> None:
        while True:
            info = signal.sigwaitinfo({signal.SIGTERM})
            if info.si_pid == parent:
                os._exit(0)

    threading.Thread(target=wait, name="holdfast-sigterm", daemon=True).start()


def worker_loop(*arguments: Any, **options: Any) -> None:
    """torch's worker loop, with our handling of SIGTERM after torch's. Found by name under spawn and forkserver."""
    from torch.utils.data._utils import signal_handling, worker  # noqa: PLC0415

    handling: Any = signal_handling
    install = handling._set_worker_signal_handlers

    def install_and_stay() -> None:
        install()
        obey_parent_only()

    # The loop first installs torch's handlers, so ours must come right after them. This process is the worker's own:
    # no other code is affected.
    handling._set_worker_signal_handlers = install_and_stay
    loop = _original[0] if _original else worker._worker_loop
    loop(*arguments, **options)


def _patch(module: Any) -> None:
    if not _original and hasattr(module, "_worker_loop"):
        _original.append(module._worker_loop)
        module._worker_loop = worker_loop


class _WhenImported(importlib.abc.MetaPathFinder):
    """Patches torch's module right after its import: `import torch` may come after `import holdfast_train`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def execute_and_patch(module: ModuleType) -> None:
                execute(module)
                _patch(module)

            loader.exec_module = execute_and_patch
        return spec


def keep_workers() -> None:
    """Make every DataLoader of this process start its workers with `worker_loop`, also if torch is imported later."""
    if MODULE in sys.modules:
        _patch(sys.modules[MODULE])
    elif not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())
