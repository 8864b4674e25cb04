"""Writes to pods. Every write may be repeated, and no write can affect another pod with the same name."""

from typing import Any

from holdfast.api import names
from holdfast.core.decision import CreatePod, DeletePod
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.client import JSON_PATCH, STRATEGIC_PATCH
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Cache, Key

RELEASE_TRIES = 4
REFUSAL_CODES = frozenset({400, 403, 405, 413, 415, 422})


class RefusedError(ApiError):
    """The API server does not accept this pod until the pod or its namespace changes (quota, admission, name)."""


def is_refusal(error: ApiError) -> bool:
    """True if the same request fails again until the pod or its namespace changes."""
    return error.status in REFUSAL_CODES or (error.status == 500 and "webhook" in error.message)


def is_namespace_terminating(error: ApiError) -> bool:
    """True if the namespace is being deleted or does not exist, so that nothing can be created in it."""
    return error.not_found or (error.status == 403 and "because it is being terminated" in error.message)


class PodWriter:
    """Creates, deletes, releases and unprotects pods, and puts the answers of the API server into the cache."""

    def __init__(self, writer: GatedWriter, cache: Cache) -> None:
        self._writer = writer
        self._cache = cache

    async def create(self, key: Key, job_uid: str, action: CreatePod) -> bool:
        """Create the pod; False if the namespace is being deleted.

        Raises RefusedError if the pod is not accepted, ApiError for an error that may pass.
        """
        try:
            raw = await self._writer.write("POST", paths.core(key.namespace, "pods"), action.manifest, first=True)
        except ApiError as error:
            if error.already_exists:
                raw = await self._existing(key, job_uid, action)
            elif is_namespace_terminating(error):
                return False
            elif is_refusal(error):
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
            if error.not_found:  # it was deleted in between: the next pass creates it
                raise ApiError(409, "Conflict", f"pod {name} existed and was deleted") from error
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
        """Delete the pod if it still has this UID."""
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": action.uid}}
        if action.grace is not None:
            body["gracePeriodSeconds"] = action.grace
        try:
            raw = await self._writer.write("DELETE", paths.core(key.namespace, "pods", action.name), body)
        except ApiError as error:
            if error.not_found:
                self._cache.forget_pod(Key(key.namespace, action.name), action.uid)
            elif error.status != 409:
                raise
            return
        if raw.get("kind") == "Pod" and raw["metadata"].get("deletionTimestamp"):
            self._cache.put_pod(raw)

    async def unprotect(self, key: Key, name: str, uid: str) -> None:
        """Remove the annotations that protect the pod from autoscalers."""
        annotations = dict.fromkeys((names.ANNOTATION_DO_NOT_DISRUPT, names.ANNOTATION_SAFE_TO_EVICT))
        body = {"metadata": {"uid": uid, "annotations": annotations}}
        try:
            self._cache.put_pod(await self._writer.write("PATCH", paths.core(key.namespace, "pods", name), body))
        except ApiError as error:
            if error.not_found:
                self._cache.forget_pod(Key(key.namespace, name), uid)
            elif error.status not in (409, 422):
                raise

    async def hold(self, key: Key, name: str, uid: str) -> None:
        """Add the finalizer of Holdfast to those that the pod has."""
        body = {"metadata": {"uid": uid, "finalizers": [names.POD_FINALIZER]}}
        path = paths.core(key.namespace, "pods", name)
        try:
            self._cache.put_pod(await self._writer.write("PATCH", path, body, STRATEGIC_PATCH))
        except ApiError as error:
            if error.not_found:
                self._cache.forget_pod(Key(key.namespace, name), uid)
            elif error.status not in (409, 422):  # another pod has the name, or the pod is being deleted
                raise

    async def release(self, key: Key, name: str, uid: str) -> None:
        """Remove the finalizer of Holdfast. The patch tests index and value, so that a race removes no other one."""
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
                    self._cache.forget_pod(Key(key.namespace, name), uid)
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
                    self._cache.forget_pod(Key(key.namespace, name), uid)
                    return
                raise
            finalizers = raw["metadata"].get("finalizers") or []
            if raw["metadata"]["uid"] != uid or names.POD_FINALIZER not in finalizers:
                return
            place = finalizers.index(names.POD_FINALIZER)
        raise ApiError(409, "Conflict", f"the finalizers of pod {name} changed {RELEASE_TRIES} times in a row")
