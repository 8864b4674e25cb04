"""Pods as the progress endpoint sees them: real tokens, real TLS, a report now and then and a long poll always."""

import asyncio
import json
import ssl
from collections.abc import Callable
from contextlib import suppress
from time import time
from typing import Any

import aiohttp
from tests.bench.api import Api, spread

from holdfast.api import names
from holdfast_protocol.endpoint import WAIT_SECONDS

IDLE_SECONDS = 75  # a trainer keeps its connections: longer than any interval between two reports


async def token_of(api: Api, pod: dict[str, Any]) -> str:
    """The token that a kubelet would project into the pod."""
    meta = pod["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    spec = {"audiences": [names.TOKEN_AUDIENCE], "expirationSeconds": 3600, "boundObjectRef": bound}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    account = pod["spec"].get("serviceAccountName", "default")
    path = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/{account}/token"
    return str((await api.request("POST", path, body))["status"]["token"])


async def trusted(api: Api, namespace: str) -> ssl.SSLContext:
    """The CA that the operator has put into the namespace for its pods."""
    found = await api.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/{names.CA_CONFIG_MAP}")
    return ssl.create_default_context(cadata=found["data"][names.CA_KEY])


class Trainer:
    """One pod that trains: holds a connection for reports and one for orders. `fenced`: it holds the storage fence."""

    def __init__(
        self, pod: dict[str, Any], token: str, url: str, context: ssl.SSLContext, *, fenced: bool = True
    ) -> None:
        self.pod = pod
        self._fenced = fenced
        labels = pod["metadata"]["labels"]
        self.job: str = labels[names.LABEL_JOB]
        self.attempt = int(labels[names.LABEL_ATTEMPT])
        self.uid: str = pod["metadata"]["uid"]
        self.step = 0
        self.acknowledged = 0
        self.refused = 0
        self._base = f"{url}/v1/namespaces/{pod['metadata']['namespace']}/jobs/{self.job}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=2, keepalive_timeout=IDLE_SECONDS),
            headers={"Authorization": f"Bearer {token}"},
            timeout=aiohttp.ClientTimeout(total=WAIT_SECONDS + 10),
        )

    async def close(self) -> None:
        """Close both connections."""
        await self._session.close()

    async def report(self, state: str = "training") -> list[dict[str, Any]]:
        """Report a step more than last time; the open orders."""
        self.step += 10
        body = {
            "sender": "Library",
            "attempt": self.attempt,
            "podUID": self.uid,
            "state": state,
            "step": self.step,
            "steps": 100_000,
            "figures": {
                "loss": f"{2.0 + 1 / self.step:.4f}",
                "samplesPerSecond": "1234.5",
                "secondsPerStep": "0.031",
            },
            "fenced": self._fenced,
            "resumedFrom": None,
            "checkpoint": None,
            "acknowledged": self.acknowledged,
            "pid": 1,
            "sentAt": None,
        }
        async with self._session.post(f"{self._base}/progress", data=json.dumps(body)) as answer:
            said = await answer.json()
            if answer.status != 200:
                self.refused += 1
            return list(said.get("orders", ()))

    async def poll(self) -> list[dict[str, Any]]:
        """Wait for an order; empty if none came."""
        query = f"podUID={self.uid}&attempt={self.attempt}&after={self.acknowledged}&wait={WAIT_SECONDS}"
        async with self._session.get(f"{self._base}/orders?{query}") as answer:
            said = await answer.json()
            if answer.status != 200:
                self.refused += 1
            return list(said.get("orders", ()))

    async def until_order(self) -> float:
        """Poll until a drain order comes, acknowledge it; when it was received, in seconds since 1970."""
        while True:
            orders = await self.poll()
            at = time()
            if drains := [order for order in orders if order["type"] == "drain"]:
                self.acknowledged = max(order["id"] for order in drains)
                await self.report("saving")
                return at


async def trainers(api: Api, pods: list[dict[str, Any]], url: str, *, fenced: bool = True) -> list[Trainer]:
    """A trainer for each pod. All pods are of one namespace."""
    context = await trusted(api, pods[0]["metadata"]["namespace"])
    made: list[Trainer] = []

    async def one(pod: dict[str, Any]) -> None:
        made.append(Trainer(pod, await token_of(api, pod), url, context, fenced=fenced))

    await spread(one, pods, 16)
    return made


class Load:
    """Many trainers that report every `every` seconds, evenly spread, and hold their long polls."""

    def __init__(self, members: list[Trainer], every: float) -> None:
        self._members = members
        self._every = every
        self._tasks: list[asyncio.Task[None]] = []
        self.reports = 0

    async def __aenter__(self) -> "Load":
        for number, trainer in enumerate(self._members):
            delay = self._every * number / len(self._members)
            self._tasks.append(asyncio.create_task(self._report(trainer, delay)))
            self._tasks.append(asyncio.create_task(self._listen(trainer, delay)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await asyncio.gather(*(trainer.close() for trainer in self._members))

    @property
    def refused(self) -> int:
        """How many requests were not answered with 200."""
        return sum(trainer.refused for trainer in self._members)

    async def _report(self, trainer: Trainer, delay: float) -> None:
        await asyncio.sleep(delay)
        while True:
            due = asyncio.get_running_loop().time() + self._every
            await _patiently(trainer, trainer.report)
            self.reports += 1
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))

    async def _listen(self, trainer: Trainer, delay: float) -> None:
        await asyncio.sleep(delay)
        while True:
            if not await _patiently(trainer, trainer.poll):
                await asyncio.sleep(0.01)


async def _patiently(trainer: Trainer, call: Callable[[], Any]) -> Any:
    """The answer; a connection that broke counts as refused."""
    with suppress(aiohttp.ClientError, TimeoutError, OSError):
        return await call()
    trainer.refused += 1
    await asyncio.sleep(1.0)
    return None
