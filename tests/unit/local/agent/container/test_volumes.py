"""Volumes as folders."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast_local.agent.container import volumes as module
from holdfast_local.agent.container.downward import PodFacts
from holdfast_local.agent.container.volumes import Volumes, write_atomically
from holdfast_local.agent.errors import ApiError, ApiUnreachableError, EnvError, VolumeError


class Api:
    """A Secret, a ConfigMap, claims, and tokens that are old when they are issued."""

    def __init__(self) -> None:
        self.tokens = 0
        self.secret = {"k": b"v"}
        self.fails = 0
        self.looked = asyncio.Event()

    async def get(self, path: str) -> dict[str, Any]:
        """GET one object."""
        self.looked.set()
        if self.fails:
            self.fails -= 1
            raise ApiUnreachableError("no answer")
        answers: dict[str, dict[str, Any]] = {
            "secrets/s": {"data": {key: base64.b64encode(value).decode() for key, value in self.secret.items()}},
            "configmaps/c": {"data": {"a": "1", "b": "2"}},
            "persistentvolumeclaims/unbound": {"spec": {}},
            "persistentvolumeclaims/nfs": {"spec": {"volumeName": "nfs"}},
            "persistentvolumes/nfs": {"spec": {"nfs": {}}},
        }
        for end, answer in answers.items():
            if path.endswith(end):
                return answer
        raise ApiError(404, "NotFound", "gone")

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Issue a token: the first ones have ended already, the fifth lives for an hour."""
        self.tokens += 1
        life = timedelta(hours=1) if self.tokens == 5 else timedelta(hours=-1)
        return {
            "status": {"token": f"{path}#{self.tokens}", "expirationTimestamp": (datetime.now(UTC) + life).isoformat()}
        }


def _volumes(folder: Path, *volumes: dict[str, Any]) -> Volumes:
    pod = {
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {"volumes": list(volumes), "containers": [{"name": "main"}]},
    }
    return Volumes(Api(), PodFacts(pod, "ip", "host", {}), folder)  # type: ignore[arg-type]


async def test_files_modes_and_items(tmp_path: Path) -> None:
    """Would break: a key in the wrong file, or one that others may read."""
    items = [{"key": "a", "path": "x/y", "mode": 0o600}]
    made = _volumes(
        tmp_path,
        {"name": "c", "configMap": {"name": "c", "items": items}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
    )
    await made.prepare()
    await made.prepare()  # a second try after a failure of another volume finds its own files
    assert (tmp_path / "c/x/y").read_text() == "1"
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["x"]
    assert (tmp_path / "c/x/y").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "s/k").stat().st_mode & 0o777 == 0o400


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
        ({"secret": {"secretName": "no"}}, 'secret "no" not found'),
        ({"configMap": {"name": "c", "items": [{"key": "no", "path": "x"}]}}, "non-existent configmap key: no"),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "../x"}]}}, "leaves its volume"),
        ({"persistentVolumeClaim": {"claimName": "no"}}, "gone"),
        ({"persistentVolumeClaim": {"claimName": "unbound"}}, "not bound"),
        ({"persistentVolumeClaim": {"claimName": "nfs"}}, "only volumes of type local"),
        ({"nfs": {"server": "x"}}, "nfs is not supported"),
    ],
)
async def test_what_cannot_be_made_is_named(tmp_path: Path, volume: dict[str, Any], words: str) -> None:
    """Would break: a pod that hangs in ContainerCreating without a word."""
    with pytest.raises(VolumeError, match=words):
        await _volumes(tmp_path, {"name": "v"} | volume).prepare()


async def test_tokens_are_renewed_until_they_have_time_left(tmp_path: Path) -> None:
    """Would break: a running trainer with a dead token."""
    source = {"serviceAccountToken": {"path": "token"}}
    made = _volumes(tmp_path, {"name": "t", "projected": {"sources": [source]}})
    await made.prepare()
    assert (tmp_path / "t/token").read_text().endswith("/serviceaccounts/default/token#1")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(made.keep_fresh(), 0.2)
    assert (tmp_path / "t/token").read_text().endswith("#5")


@pytest.mark.parametrize("projected", [False, True])
async def test_files_of_a_secret_follow_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, projected: bool
) -> None:
    """Would break: keys that are rotated never reach a running trainer."""
    items = [{"key": key, "path": key} for key in ("k", "token")]
    source: dict[str, Any] = {"items": items, "optional": True}
    alone = {"secret": {**source, "secretName": "s", "defaultMode": 0o444}}
    together = {"projected": {"sources": [{"secret": {**source, "name": "s"}}], "defaultMode": 0o444}}
    made = _volumes(tmp_path, {"name": "s", **(together if projected else alone)})
    api: Any = made.api
    api.secret["token"] = b"t"
    await made.prepare()
    await made.prepare()
    before = (tmp_path / "s/k").stat().st_ino
    monkeypatch.setattr(module, "SECRET_SECONDS", 0.0)
    keeping = asyncio.create_task(made.keep_fresh())

    async def files() -> dict[str, str]:
        """What is there after the agent has looked at the Secret, and has done what follows."""
        for _ in range(2 + api.fails):
            api.looked.clear()
            await asyncio.wait_for(api.looked.wait(), 20)
        return {path.name: path.read_text() for path in (tmp_path / "s").iterdir()}

    api.fails, api.secret = 2, {"k": b"v"}
    assert await files() == {"k": "v"}
    assert (tmp_path / "s/k").stat().st_ino == before  # what has not changed is not written
    api.secret = {"k": b"new"}
    assert await files() == {"k": "new"}
    assert (tmp_path / "s/k").stat().st_mode & 0o777 == 0o444
    keeping.cancel()


async def test_mounts_and_sub_paths(tmp_path: Path) -> None:
    """Would break: subPath, and a subPath that reaches out of its volume."""
    made = _volumes(tmp_path, {"name": "e", "emptyDir": {}})
    await made.prepare()
    mounts = [{"name": "e", "mountPath": "/a"}, {"name": "e", "mountPath": "/b", "subPathExpr": "$(X)/y"}]
    assert made.mounts({"volumeMounts": mounts}, {"X": "x"}) == {
        "/a": str(tmp_path / "e"),
        "/b": str(tmp_path / "e/x/y"),
    }
    assert (tmp_path / "e/x/y").is_dir()
    with pytest.raises(EnvError, match="leaves its volume"):
        made.mounts({"volumeMounts": [{"name": "e", "mountPath": "/a", "subPath": "../../x"}]}, {})


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    """Would break: a trainer reads half a token."""
    path = tmp_path / "token"
    write_atomically(path, b"old", 0o600)
    with path.open("rb") as before:
        write_atomically(path, b"new", 0o644)
        assert before.read() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]
