"""Volumes as folders: what a kubelet would mount, written where the pod's processes can reach it."""

import asyncio
import logging
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast_local.agent.api import ApiClient, Backoff
from holdfast_local.agent.container import env
from holdfast_local.agent.container.downward import PodFacts
from holdfast_local.agent.container.tokens import Token, request_token
from holdfast_local.agent.errors import AgentError, ApiError, ApiUnreachableError, EnvError, VolumeError

Object = dict[str, Any]

log = logging.getLogger(__name__)

SECRET_SECONDS = 10.0  # from one look at the Secrets of a pod to the next; a kubelet takes a minute or two


@dataclass
class _Rotating:
    source: Object
    path: Path
    mode: int
    token: Token


@dataclass
class _Watched:
    folder: Path
    source: Object
    name: str
    mode: int


@dataclass
class Volumes:
    """The volumes of one pod, below a folder of the pod."""

    api: ApiClient
    facts: PodFacts
    folder: Path
    paths: dict[str, Path] = field(default_factory=dict)
    _tokens: list[_Rotating] = field(default_factory=list)
    _secrets: list[_Watched] = field(default_factory=list)

    async def prepare(self) -> None:
        """Make every volume. Raises VolumeError naming the volume that cannot be made yet; may be called again."""
        self._tokens.clear()
        self._secrets.clear()
        sources = env.Sources(self.api, self.facts.pod["metadata"]["namespace"])
        for volume in self.facts.pod["spec"].get("volumes") or []:
            try:
                self.paths[volume["name"]] = await self._make(volume, sources)
            except (EnvError, ApiError) as err:
                words = err.message if isinstance(err, ApiError) else str(err)
                raise VolumeError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {words}') from err

    async def _make(self, volume: Object, sources: env.Sources) -> Path:
        folder = self.folder / str(volume["name"])
        if "persistentVolumeClaim" in volume:
            return await self._claim(volume["persistentVolumeClaim"]["claimName"])
        folder.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume:
            folder.chmod(0o777)
        elif "configMap" in volume:
            source = volume["configMap"]
            await self._files(folder, ("configmap", source["name"]), source, sources, _mode(source))
        elif "secret" in volume:
            source = volume["secret"]
            await self._secret(_Watched(folder, source, source["secretName"], _mode(source)), sources)
        elif "downwardAPI" in volume:
            self._downward(folder, volume["downwardAPI"], _mode(volume["downwardAPI"]))
        elif "projected" in volume:
            for source in volume["projected"].get("sources") or []:
                await self._projected(folder, source, sources, _mode(volume["projected"]))
        else:
            kind = next((key for key in volume if key != "name"), "none")
            raise VolumeError(
                f"volume {volume['name']}: {kind} is not supported in the local cluster; use emptyDir, configMap, "
                "secret, downwardAPI, projected or a persistentVolumeClaim bound to a local volume"
            )
        return folder

    async def _projected(self, folder: Path, source: Object, sources: env.Sources, mode: int) -> None:
        if "serviceAccountToken" in source:
            token_source = source["serviceAccountToken"]
            token = await request_token(self.api, self.facts.pod, token_source)
            rotating = _Rotating(token_source, _inside(folder, token_source["path"]), mode, token)
            write_atomically(rotating.path, token.value.encode(), rotating.mode)
            self._tokens.append(rotating)
        elif "configMap" in source:
            await self._files(folder, ("configmap", source["configMap"]["name"]), source["configMap"], sources, mode)
        elif "secret" in source:
            await self._secret(_Watched(folder, source["secret"], source["secret"]["name"], mode), sources)
        elif "downwardAPI" in source:
            self._downward(folder, source["downwardAPI"], mode)
        else:
            raise VolumeError(f"projected source {', '.join(source)} is not supported in the local cluster")

    async def _secret(self, secret: _Watched, sources: env.Sources) -> None:
        await self._files(secret.folder, ("secret", secret.name), secret.source, sources, secret.mode)
        self._secrets.append(secret)

    async def _files(self, folder: Path, ref: tuple[str, str], source: Object, sources: env.Sources, mode: int) -> None:
        kind, name = ref
        optional = bool(source.get("optional"))
        data = await sources.data(kind, name, optional=optional)
        items = source.get("items")
        chosen = [{"key": key, "path": key} for key in data] if items is None else items
        for item in chosen:
            if item["key"] not in data:
                if optional:
                    _inside(folder, item["path"]).unlink(missing_ok=True)
                    continue
                raise EnvError(f"references non-existent {kind} key: {item['key']}")
            write_atomically(_inside(folder, item["path"]), data[item["key"]], int(item.get("mode") or mode))

    def _downward(self, folder: Path, source: Object, mode: int) -> None:
        containers = self.facts.pod["spec"]["containers"]
        for item in source.get("items") or []:
            if "fieldRef" in item:
                text = self.facts.field(item["fieldRef"]["fieldPath"])
            else:
                text = self.facts.resource(item["resourceFieldRef"], containers[0])
            write_atomically(_inside(folder, item["path"]), text.encode(), int(item.get("mode") or mode))

    async def _claim(self, name: str) -> Path:
        namespace = self.facts.pod["metadata"]["namespace"]
        claim = await self.api.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
        volume_name = claim["spec"].get("volumeName")
        if not volume_name:
            raise VolumeError(f"persistentVolumeClaim {name} is not bound to a volume yet")
        volume = await self.api.get(f"/api/v1/persistentvolumes/{volume_name}")
        local = volume["spec"].get("local")
        if local is None:
            raise VolumeError(f"persistentVolume {volume_name}: only volumes of type local work in the local cluster")
        path = Path(local["path"])
        if not _is_folder(path):
            raise VolumeError(f'persistentVolume {volume_name}: path "{path}" does not exist; make the folder')
        return path

    async def keep_fresh(self) -> None:
        """Renew the tokens, and the files of Secrets, until cancelled."""
        await asyncio.gather(self._keep_tokens_fresh(), self._keep_secrets_fresh())

    async def _keep_secrets_fresh(self) -> None:
        while self._secrets:
            await asyncio.sleep(SECRET_SECONDS)
            watched, self._secrets = self._secrets, []
            sources = env.Sources(self.api, self.facts.pod["metadata"]["namespace"])
            for secret in watched:
                try:
                    await self._secret(secret, sources)
                except (EnvError, ApiError, ApiUnreachableError) as err:
                    pod = self.facts.pod["metadata"]["name"]
                    log.warning("Secret %s of pod %s not renewed: %s", secret.name, pod, err)
                    self._secrets.append(secret)

    async def _keep_tokens_fresh(self) -> None:
        """Renew every token at 80% of its life."""
        backoff = Backoff(first=1.0, longest=30.0)
        while self._tokens:
            due = min(self._tokens, key=lambda one: one.token.renew_at())
            wait = (due.token.renew_at() - datetime.now(UTC)).total_seconds()
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            try:
                due.token = await request_token(self.api, self.facts.pod, due.source)
                write_atomically(due.path, due.token.value.encode(), due.mode)
                backoff.reset()
            except (ApiError, ApiUnreachableError) as err:
                log.warning("token of pod %s not renewed: %s", self.facts.pod["metadata"]["name"], err)
                await asyncio.sleep(backoff.take())

    def mounts(self, container: Object, known: dict[str, str]) -> dict[str, str]:
        """Mount path -> real path of a container. Raises EnvError for a subPath that leaves its volume."""
        result = {}
        for mount in container.get("volumeMounts") or []:
            real = self.paths[mount["name"]]
            sub = mount.get("subPath") or env.expand(mount.get("subPathExpr", ""), known)
            if sub:
                try:
                    real = _inside(real, sub, parents=False)
                except AgentError as err:
                    raise EnvError(f"failed to prepare subPath for volumeMount {mount['name']!r}: {err}") from err
                if not real.exists():
                    real.mkdir(parents=True)
            result[mount["mountPath"]] = str(real)
        return result


def _mode(source: Object) -> int:
    """The mode of the files of a volume, where an item has none of its own."""
    return int(source.get("defaultMode") or 0o644)


def _is_folder(path: Path) -> bool:
    return path.is_dir()


def _inside(folder: Path, relative: str, *, parents: bool = True) -> Path:
    path = Path(os.path.normpath(folder / relative))
    if Path(relative).is_absolute() or not path.is_relative_to(folder):
        raise VolumeError(f"path {relative!r} leaves its volume; give a path below it, without '..'")
    if parents:
        path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write_atomically(path: Path, data: bytes, mode: int) -> None:
    """Replace a file in one step: a reader sees the old content or the new, and never a part.

    A file that has the content already stays: a reader may look at its time.
    """
    if path.is_file() and path.read_bytes() == data:
        path.chmod(mode)
        return
    fresh = path.with_name(f".{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    fresh.chmod(mode)
    fresh.replace(path)
