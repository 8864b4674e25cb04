"""Every change of every pod of a namespace, in the order of the API server: what was alive at the same time?"""

import json
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, Self

from holdfast.api import names
from holdfast_local.cluster import Cluster


class PodWatch:
    """Watches from `__enter__` on."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        kubectl = [str(cluster.tools["kubectl"]), "--kubeconfig", str(cluster.admin_kubeconfig)]
        self._command = [*kubectl, "get", "pods", "-n", namespace, "-o", "json", "--watch", "--output-watch-events"]
        self._folder = tempfile.TemporaryDirectory(prefix="hf-watch-")
        self._file = Path(self._folder.name) / "events.json"
        self._process: subprocess.Popen[bytes] | None = None

    def events(self) -> list[dict[str, Any]]:
        """What was seen so far: `type` and `object`, oldest first."""
        text, decoder, at = self._file.read_text(encoding="utf-8"), json.JSONDecoder(), 0
        found = []
        while at < len(text):
            try:
                event, end = decoder.raw_decode(text, at)
            except ValueError:  # the last one is not written in full yet
                break
            found.append(event)
            at = end + len(text[end:]) - len(text[end:].lstrip())
        return found

    def most_alive(self) -> dict[str, list[dict[str, Any]]]:
        """For each job the most of its pods that lived at the same time.

        A pod lives from its creation until its phase says that all its containers have ended, or it is gone.
        """
        alive: dict[str, dict[str, Any]] = defaultdict(dict)
        most: dict[str, list[dict[str, Any]]] = {}
        for event in self.events():
            pod = event["object"]
            job, name = pod["metadata"]["labels"][names.LABEL_JOB], pod["metadata"]["name"]
            over = event["type"] == "DELETED" or pod["status"].get("phase") in ("Succeeded", "Failed")
            if over:
                alive[job].pop(name, None)
            else:
                alive[job][name] = pod
            if len(alive[job]) >= len(most.get(job, ())):
                most[job] = list(alive[job].values())
        return most

    def __enter__(self) -> Self:
        with self._file.open("wb") as out:
            self._process = subprocess.Popen(self._command, stdout=out)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            self._process.kill()
            self._process.wait(10)
        self._folder.cleanup()
