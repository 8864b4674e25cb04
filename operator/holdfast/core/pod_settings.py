"""The settings of a job for its pod: one document, which the launcher and the program's `Run` read."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from holdfast.api import names
from holdfast.api.job import Checkpoint
from holdfast.api.objects import TrainingJob
from holdfast.api.scalars import quantity_value
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.pod_data import data_to_copy
from holdfast_protocol import gates, settings
from holdfast_protocol.document import EXACT
from holdfast_protocol.settings import Settings


def pod_settings(job: TrainingJob, config: OperatorConfig, life: float, imports: Sequence[str] = ()) -> Settings:
    """What the pods of `job` are told. `life`: seconds between interruptions on the tier, as known now."""
    spec, checkpoint, failure = job.spec, job.spec.checkpoint, job.spec.failure
    s3, stall, resume = checkpoint.storage.s3, failure.stall_timeout, checkpoint.resume
    has_keys = s3 is not None and s3.credentials_secret is not None
    return Settings(
        grace=grace_seconds(job),
        operator_url=config.progress_url,
        token_file=f"{names.TOKEN_PATH}/token",
        ca_file=f"{names.CA_PATH}/{names.CA_KEY}",
        checkpoint_uri=checkpoint.storage.uri,
        checkpoint_region=s3.region if s3 else None,
        checkpoint_endpoint=s3.endpoint if s3 else None,
        checkpoint_ca=f"{names.STORAGE_CA_PATH}/{names.CA_KEY}" if s3 and s3.ca else None,
        checkpoint_proxy=s3.proxy if s3 else None,
        checkpoint_addressing=s3.addressing if s3 else "Auto",
        keys_folder=names.KEYS_PATH if has_keys else None,
        folder=checkpoint.folder,
        folder_pattern=checkpoint.pattern,
        folder_exclude=tuple(checkpoint.exclude),
        folder_put_back=checkpoint.put_back,
        every=_every(checkpoint, life),
        upload_rate=_upload_rate(checkpoint),
        peers=checkpoint.peers and gates.PEER_COPIES.name in config.gates,
        keep=_keep(checkpoint),
        resume=resume if isinstance(resume, str) else resume.source,
        resume_only=() if isinstance(resume, str) else tuple(resume.only),
        non_finite=failure.non_finite,
        spike=settings.Spike(**dict(failure.spike)) if failure.spike else None,
        slow_window=None if failure.slow_ranks.action == "Ignore" else failure.slow_ranks.window.total_seconds(),
        stall=settings.Stall(_seconds(stall.period)) if stall.auto or stall.period else None,
        data=data_to_copy(job),
        code=spec.trainer.code.sha256 if spec.trainer.code else None,
        dependencies=spec.trainer.code.dependencies if spec.trainer.code else None,
        patterns=tuple(spec.progress.patterns),
        imports=tuple(imports),
        mlflow=bool(spec.trainer.tracking.mlflow),
        wandb=bool(spec.trainer.tracking.wandb),
        warm_start=spec.trainer.warm_start,
        gates=tuple(sorted(config.gates)),
    )


def grace_seconds(job: TrainingJob) -> int:
    """The grace period in whole seconds, rounded up."""
    grace = job.spec.checkpoint.grace_period.total_seconds()
    return int(Decimal(str(grace)).to_integral_value(rounding="ROUND_CEILING"))


def _upload_rate(checkpoint: Checkpoint) -> int | None:
    """Bytes a second. A quantity may be larger than a number of the document: no network is so fast."""
    return min(int(quantity_value(checkpoint.upload_rate)), EXACT) if checkpoint.upload_rate else None


def _every(checkpoint: Checkpoint, life: float) -> settings.Every:
    return settings.Every(
        steps=checkpoint.every.steps,
        seconds=_seconds(checkpoint.every.period),
        max_lost_work=_seconds(checkpoint.max_lost_work),
        mean_time_between_interruptions=max(1, round(life)),
    )


def _keep(checkpoint: Checkpoint) -> settings.Keep:
    keep, best = checkpoint.keep, checkpoint.keep.best
    found = settings.Keep(last=keep.last, every=_seconds(keep.every), logs=keep.logs)
    return replace(found, best=best.count, metric=best.metric, mode=best.mode) if best else found


def _seconds(period: timedelta | None) -> float | None:
    return None if period is None else period.total_seconds()
