"""The logs of pods that are gone, which their launchers have kept in the storage of the job."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

from holdfast.api.objects import TrainingJob
from holdfast.core.observe.pods import ContainerView, PodView
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.errors import CliError
from holdfast_cli.logs.lines import Cutter, Line, Position
from holdfast_cli.storage.address import PATIENCE, Where, explained, storage_of
from holdfast_train.pod import kept_logs
from holdfast_train.pod.kept_logs import KeptLog
from holdfast_train.storage.retrying import RetryingStorage

KEEPS: Final = "16 MiB"  # of each pod
GONE: Final = "gone"  # resourceVersion of a pod that is not in the cluster
_PIECE: Final = 1 << 20  # bytes that are cut into lines before others get a turn


class UnreadableError(Exception):
    """A log that is kept cannot be read; `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class KeptPodLog:
    """The kept log of one pod, with the face of `PodLog`."""

    def __init__(self, pod: PodView, log: KeptLog, storage: RetryingStorage) -> None:
        self.pod = pod
        self.position = Position()
        self.is_cut = False
        """True, once it was read, if older lines were not kept."""
        self._log = log
        self._storage = storage

    async def read(self) -> AsyncIterator[Line]:
        """Its lines. UnreadableError."""
        try:
            known, content = await asyncio.to_thread(self._content)
        except (CliError, ValueError) as error:
            raise UnreadableError(str(error)) from error
        self.is_cut = known.get("cut") is True
        cutter = Cutter(self.position)
        for at in range(0, len(content), _PIECE):
            for line in cutter.feed(content[at : at + _PIECE]):
                yield line

    def _content(self) -> tuple[dict[str, object], bytes]:
        with explained(), self._storage.within(PATIENCE):
            return kept_logs.read(self._storage, self._log)

    def rest(self) -> Iterator[Line]:
        """Nothing: each line that is kept has an end."""
        return iter(())


class KeptLogs:
    """The logs of a job that its storage has. The storage is asked once, and only if a log is not in the cluster."""

    def __init__(self, client: Client, job: TrainingJob, where: Where, say: Callable[[str], object]) -> None:
        """`where` says how the storage is reached; `say` gets words if it cannot be read."""
        self._client = client
        self._job = job
        self._where = where
        self._say = say
        self._lock = asyncio.Lock()
        self._found: dict[str, KeptPodLog] | None = None

    async def of(self, pod: PodView) -> KeptPodLog | None:
        """The kept log of a pod."""
        return (await self._all()).get(pod.uid)

    async def gone(self, pods: Sequence[PodView]) -> list[PodView]:
        """Pods that are not among these, and of which there is a log: as the cluster would show them."""
        there = {pod.uid for pod in pods}
        return [log.pod for uid, log in (await self._all()).items() if uid not in there]

    async def _all(self) -> dict[str, KeptPodLog]:
        """By UID of the pod. Empty if the storage cannot be read; that is said once."""
        async with self._lock:
            if self._found is None:
                self._found = {}
                try:
                    self._found = await self._ask()
                except CliError as error:
                    self._say(f"logs of pods that are gone may be kept beside the checkpoints, but: {error}")
                    if error.hint:
                        self._say(error.hint)
        return self._found

    async def _ask(self) -> dict[str, KeptPodLog]:
        found = await storage_of(self._client, self._job, self._where)

        def ask() -> dict[str, KeptPodLog]:
            with explained():
                storage = found.open()
                with storage.within(PATIENCE):
                    logs = kept_logs.kept_logs(storage, self._job.metadata.uid)
            return {log.pod_uid: KeptPodLog(_pod(self._job, log), log, storage) for log in logs}

        return await asyncio.to_thread(ask)


def is_gone(pod: PodView) -> bool:
    """True for a pod that `KeptLogs.gone` has found."""
    return pod.resource_version == GONE


def _pod(job: TrainingJob, log: KeptLog) -> PodView:
    """What the cluster said of a pod that is gone, as far as the name of its log says it."""
    name = job.metadata.name
    return PodView(
        namespace=job.metadata.namespace,
        name=f"{name}-{log.attempt}-{log.rank}",
        uid=log.pod_uid,
        resource_version=GONE,
        job=name,
        job_uid=job.metadata.uid,
        attempt=log.attempt,
        rank=log.rank,
        phase="Failed",
        created_at=None,
        trainer=ContainerView("", ended=True),
        outlives=log.nodes > 1,
    )
