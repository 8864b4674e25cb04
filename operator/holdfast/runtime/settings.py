"""What an installation can set. Flags of `holdfast operator run` and HOLDFAST_* environment variables fill these in."""

import socket
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from holdfast.core.observe.config import OperatorConfig

Address = Annotated[str, Field(pattern=r"^[^\s]*:[0-9]{1,5}$", description="HOST:PORT; an empty host means all")]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class Settings(BaseModel):
    """Every setting, bounded. Durations are in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    namespace: str = Field(
        "holdfast-system", pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", description="own namespace"
    )
    kubeconfig: Path | None = Field(None, description="kubeconfig file; without it the pod's service account is used")
    identity: str = Field(
        default_factory=socket.gethostname, min_length=1, max_length=200, description="name in the Lease"
    )
    progress_bind: Address = Field(":8443", description="where pods report")
    progress_url: str | None = Field(
        None, pattern=r"^https://[^\s/]+$", description="how pods reach it; default: the Service `holdfast`"
    )
    health_bind: Address = Field(":8080", description="where /healthz, /readyz and /metrics are served")
    init_image: str = Field(
        "holdfast.dev/init:local", min_length=1, max_length=500, description="image of the init container"
    )
    workers: int = Field(64, ge=1, le=256, description="jobs worked on at once")
    qps: float = Field(200, ge=1, le=10_000, description="API writes a second in the long run")
    burst: float = Field(400, ge=1, le=20_000, description="API writes at once")
    progress_writes: float = Field(10, ge=0.1, le=1_000, description="progress writes a second over all jobs")
    profile_writes_every: Seconds = Field(
        30, ge=0.1, le=300, description="how often what is known of tiers is written to a CapacityProfile at most"
    )
    lease_duration: Seconds = Field(15, ge=1, le=600, description="how long a silent leader stays leader")
    lease_renew: Seconds = Field(5, ge=0.2, le=200, description="how often the leader renews the Lease")
    resync_every: Seconds = Field(600, ge=1, le=86_400, description="how often everything is listed anew, about")
    drain_timeout: Seconds = Field(
        20, ge=0.1, le=300, description="how long a stopping operator finishes work in flight"
    )
    seed: int | None = Field(None, description="makes jitter repeatable")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="least level that is logged")

    patience: dict[str, Seconds] = Field(default_factory=dict, description="durations of OperatorConfig, by name")

    @field_validator("patience")
    @classmethod
    def _known(cls, value: dict[str, float]) -> dict[str, float]:
        allowed = sorted(f.name for f in fields(OperatorConfig) if f.type is timedelta)
        if unknown := sorted(set(value) - set(allowed)):
            raise ValueError(f"{', '.join(unknown)}: no such duration; one of {', '.join(allowed)}")
        return value

    @model_validator(mode="after")
    def _lease_fits(self) -> "Settings":
        if self.lease_renew * 2 > self.lease_duration:
            raise ValueError(
                f"lease_renew is {self.lease_renew}s: at most half of lease_duration ({self.lease_duration}s) is"
                " allowed, or one slow answer costs the leadership"
            )
        return self

    @property
    def service_url(self) -> str:
        """How pods reach the progress endpoint."""
        port = self.progress_bind.rpartition(":")[2]
        return self.progress_url or f"https://holdfast.{self.namespace}.svc:{port}"

    def operator_config(self) -> OperatorConfig:
        """The part that decisions are made from."""

        spans = {name: timedelta(seconds=seconds) for name, seconds in self.patience.items()}
        config = OperatorConfig(init_image=self.init_image, progress_url=self.service_url)
        return replace(config, **spans)  # type: ignore[arg-type]


def split_address(address: str) -> tuple[str | None, int]:
    """Host (None for all) and port of a HOST:PORT."""
    host, _, port = address.rpartition(":")
    return host.strip("[]") or None, int(port)
