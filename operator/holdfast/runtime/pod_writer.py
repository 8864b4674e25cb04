"""Writes to pods. Each one is safe to repeat, and none can hit another pod that has taken the name."""

from typing import Any

from holdfast.api import names
from holdfast.core.decision import CreatePod, DeletePod
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.client import JSON_PATCH
from holdfast.runtime.apiserver.gated_writer import Writer
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Cache, Key

RELEASE_TRIES = 4
REFUSED = frozenset({400, 403, 405, 413, 415, 422})


class RefusedError(ApiError):
    """The API server will not have this pod, now or until something about the namespace or the pod changes."""


def refused(error: ApiError) -> bool:
    """True if asking again does not help until somebody changes something."""
    return error.status in REFUSED or (error.status == 500 and "webhook" in error.message)


def namespace_ends(error: ApiError) -> bool:
    """True if nothing can be created because the namespace is being deleted."""
    return error.not_found or (error.status == 403 and "because it is being terminated" in error.message)


class PodWriter:
    """Creates, deletes, releases and unprotects pods; what the API server answers goes into the cache."""

    def __init__(self, writer: Writer, cache: Cache) -> None:
        self._writer = writer
        self._cache = cache

    async def create(self, key: Key, job_uid: str, action: CreatePod) -> bool:
        """POST the pod; False if the namespace is being deleted.

        Raises RefusedError, ApiError for what may pass by itself.
        """
        try:
            raw = await self._writer.write("POST", paths.core(key.namespace, "pods"), action.manifest)
        except ApiError as error:
            if error.already_exists:
                raw = await self._existing(key, job_uid, action)
            elif namespace_ends(error):
                return False
            elif refused(error):
                raise RefusedError(error.status, error.reason, error.message) from error
            else:
                raise
        self._cache.put_pod(raw)
        return True

    async def _existing(self, key: Key, job_uid: str, action: CreatePod) -> dict[str, Any]:
        name = action.manifest["metadata"]["name"]
        try:
            raw = await self._writer.get(paths.core(key.namespace, "pods", name))
        except ApiError as error:
            if error.not_found:  # it went in between: the next pass creates it
                raise ApiError(409, "Conflict", f"pod {name} was there and is gone") from error
            raise
        meta = raw["metadata"]
        owners = {owner["uid"] for owner in meta.get("ownerReferences") or ()}
        attempt = (meta.get("labels") or {}).get(names.LABEL_ATTEMPT)
        if job_uid in owners and attempt == str(action.attempt):
            return raw
        raise RefusedError(
            409,
            "NameTaken",
            f"pod {name} exists and does not belong to attempt {action.attempt} of this job; delete it",
        )

    async def delete(self, key: Key, action: DeletePod) -> None:
        """DELETE the pod if it still has this UID."""
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": action.uid}}
        if action.grace is not None:
            body["gracePeriodSeconds"] = action.grace
        try:
            raw = await self._writer.write("DELETE", paths.core(key.namespace, "pods", action.name), body)
        except ApiError as error:
            if error.not_found:
                self._cache.lose_pod(Key(key.namespace, action.name), action.uid)
            elif error.status != 409:
                raise
            return
        if raw.get("kind") == "Pod" and raw["metadata"].get("deletionTimestamp"):
            self._cache.put_pod(raw)

    async def unprotect(self, key: Key, name: str, uid: str) -> None:
        """Take the annotations off that keep autoscalers away."""
        annotations = dict.fromkeys((names.ANNOTATION_DO_NOT_DISRUPT, names.ANNOTATION_SAFE_TO_EVICT))
        body = {"metadata": {"uid": uid, "annotations": annotations}}
        try:
            self._cache.put_pod(await self._writer.write("PATCH", paths.core(key.namespace, "pods", name), body))
        except ApiError as error:
            if error.not_found:
                self._cache.lose_pod(Key(key.namespace, name), uid)
            elif error.status not in (409, 422):
                raise

    async def release(self, key: Key, name: str, uid: str) -> None:
        """Take our finalizer off. The patch tests place and value, so that a race can remove no other."""
        path, place = paths.core(key.namespace, "pods", name), 0
        for _ in range(RELEASE_TRIES):
            at = f"/metadata/finalizers/{place}"
            patch = [
                {"op": "test", "path": "/metadata/uid", "value": uid},
                {"op": "test", "path": at, "value": names.POD_FINALIZER},
                {"op": "remove", "path": at},
            ]
            try:
                raw = await self._writer.write("PATCH", path, patch, JSON_PATCH)
            except ApiError as error:
                if error.not_found:
                    self._cache.lose_pod(Key(key.namespace, name), uid)
                    return
                if error.status not in (400, 409, 422):
                    raise
            else:
                self._cache.put_pod(raw)
                return
            try:
                raw = await self._writer.get(path)
            except ApiError as error:
                if error.not_found:
                    self._cache.lose_pod(Key(key.namespace, name), uid)
                    return
                raise
            finalizers = raw["metadata"].get("finalizers") or []
            if raw["metadata"]["uid"] != uid or names.POD_FINALIZER not in finalizers:
                return
            place = finalizers.index(names.POD_FINALIZER)
        raise ApiError(409, "Conflict", f"the finalizers of pod {name} change all the time")
