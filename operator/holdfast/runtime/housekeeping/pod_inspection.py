"""Pods that do not start, or are silent: read the warnings about them, and restore the certificate that they mount."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from holdfast.core.decision import InspectPod
from holdfast.core.observe.start_trouble import Inspection, StartTrouble
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.endpoint.ca_configmap import CaConfigMap
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Key

log = logging.getLogger(__name__)

NEWEST = 50  # Events that are read of one pod
_REASON = re.compile("[A-Za-z]{1,64}")


class PodInspector:
    """Inspects pods, and keeps what it found until the pod is gone."""

    def __init__(self, writer: GatedWriter, ca: CaConfigMap, now: Callable[[], datetime]) -> None:
        self._writer = writer
        self._ca = ca
        self._now = now
        self._found: dict[str, Inspection] = {}

    def of(self, pod_uids: Iterable[str]) -> Mapping[str, Inspection]:
        """The last inspection of each of these pods that was inspected."""
        return {uid: self._found[uid] for uid in pod_uids if uid in self._found}

    def keep_only(self, pod_uids: set[str]) -> None:
        """Forget all other pods."""
        for uid in self._found.keys() - pod_uids:
            del self._found[uid]

    async def inspect(self, key: Key, action: InspectPod) -> None:
        """Inspect a pod. An error is logged: the pod is inspected again later, and its job goes on without."""
        trouble = None
        try:
            await self._ca.check(key.namespace)
            trouble = await self._newest_warning(key.namespace, action)
        except ApiError as error:
            log.warning("cannot inspect pod %s: %s", action.name, error, extra={"job": "/".join(key)})
        self._found[action.uid] = Inspection(self._now(), trouble)

    async def _newest_warning(self, namespace: str, action: InspectPod) -> StartTrouble | None:
        selector = f"involvedObject.uid={action.uid},type=Warning"
        params: dict[str, str | int] = {"fieldSelector": selector, "limit": NEWEST}
        events = (await self._writer.get(paths.core(namespace, "events"), params)).get("items") or ()
        newest = max(events, key=_seen_at, default=None)
        if newest is None:
            return None
        # People may write Events too: only the words are taken from them.
        reason = str(newest.get("reason") or "")
        text = f"pod {action.name} cannot start: {str(newest.get('message') or reason)[:1024]}"
        return StartTrouble(reason if _REASON.fullmatch(reason) else "Warning", text)


def _seen_at(event: Mapping[str, Any]) -> str:
    """When the Event was last seen; its times are all in UTC and of one form."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
