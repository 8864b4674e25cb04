"""Report a TrainingJob that cannot be read, once, in its own status. Other jobs continue."""

from datetime import UTC, datetime
from typing import Any

from holdfast.api.objects import TrainingJob
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Cache, Key, Malformed

CONDITION = "Accepted"
REASON = "Malformed"


async def report(writer: GatedWriter, cache: Cache, key: Key, found: Malformed) -> bool:
    """Write condition Accepted=False and return True; False if nothing was written. Raises ApiError."""
    meta: dict[str, Any] = dict(found.raw["metadata"])
    status = found.raw.get("status")
    known = status.get("conditions") if isinstance(status, dict) else None
    conditions = [c for c in known if isinstance(c, dict)] if isinstance(known, list) else []
    message = f"this operator cannot read the job: {found.message}. Correct the field or delete the job."[:1024]
    old = next((c for c in conditions if c.get("type") == CONDITION), {})
    if (old.get("status"), old.get("message")) == ("False", message):
        return False
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    since = old.get("lastTransitionTime", now) if old.get("status") == "False" else now
    condition = {
        "type": CONDITION,
        "status": "False",
        "reason": REASON,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": meta.get("generation", 0),
    }
    body = {
        "metadata": {"resourceVersion": meta["resourceVersion"], "uid": meta["uid"]},
        "status": {"conditions": [*(c for c in conditions if c.get("type") != CONDITION), condition]},
    }
    try:
        raw = await writer.write("PATCH", f"{paths.job(key.namespace, key.name)}/status", body)
    except ApiError as error:
        if error.not_found or error.conflict:  # the watch brings the current version
            return False
        raise
    cache.put_job(raw)
    return True


def without_condition(job: TrainingJob) -> TrainingJob:
    """The job as decisions see it: without this condition, so that the next write removes it."""
    conditions = tuple(c for c in job.status.conditions if not (c.type == CONDITION and c.reason == REASON))
    if len(conditions) == len(job.status.conditions):
        return job
    return job.model_copy(update={"status": job.status.model_copy(update={"conditions": conditions})})
