"""Settings of an installation, from flags of `holdfast-operator run` and HOLDFAST_* environment variables."""

import socket
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.nodes import KNOWN_CONDITIONS, FaultSigns
from holdfast_protocol import gates

DEFAULT_NAMESPACE = "holdfast-system"
Address = Annotated[
    str,
    Field(
        pattern=r"^[^\s]*:[0-9]{1,5}$",
        description="HOST:PORT; an empty host means all addresses",
        examples=["127.0.0.1:8443, or :8443 for all addresses"],
    ),
]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class Settings(BaseModel):
    """Every setting with its bounds. Durations are in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    namespace: str = Field(
        DEFAULT_NAMESPACE,
        pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        description="namespace of the operator",
        examples=[DEFAULT_NAMESPACE],
    )
    kubeconfig: Path | None = Field(None, description="kubeconfig file; default: the pod's service account")
    identity: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        max_length=200,
        description="name of this process in the Lease",
    )
    pod: str | None = Field(
        None,
        max_length=253,
        description="name of the operator's own pod; without it the operator sets no leader's label",
    )
    progress_bind: Address = Field(":8443", description="address of the progress endpoint, to which pods report")
    progress_url: str | None = Field(
        None,
        pattern=r"^https://[^\s/]+$",
        examples=["https://holdfast.example:8443"],
        description="URL of the progress endpoint for pods; default: the Service `holdfast`",
    )
    health_bind: Address = Field(":8080", description="address of /healthz and /readyz")
    metrics_bind: Address = Field(":9443", description="address of /metrics")
    metrics_auth: Literal["on", "off"] = Field(
        "on",
        description="on: /metrics is HTTPS and needs a token whose user may get the URL /metrics; off: it is HTTP, and"
        " everyone may read it",
    )
    metrics_jobs: int = Field(
        2_000, ge=0, le=100_000, description="most jobs with metrics of their own, the newest of those not over first"
    )
    init_image: str = Field(
        "holdfast.dev/init:local",
        min_length=1,
        max_length=500,
        description="image of the init container in training pods",
    )
    workers: int = Field(64, ge=1, le=256, description="number of jobs processed at the same time")
    qps: float = Field(200, ge=1, le=10_000, description="most API writes per second in the long run")
    burst: float = Field(400, ge=1, le=20_000, description="most API writes at once")
    progress_writes: float = Field(
        10, ge=0.1, le=1_000, description="most writes of progress per second, over all jobs"
    )
    profile_writes_every: Seconds = Field(
        30, ge=0.1, le=300, description="least seconds between two writes of the status of a CapacityProfile"
    )
    lease_duration: Seconds = Field(
        15, ge=1, le=600, description="seconds until a leader that does not renew loses the Lease"
    )
    lease_renew: Seconds = Field(5, ge=0.2, le=200, description="seconds between two renewals of the Lease")
    resync_every: Seconds = Field(600, ge=1, le=86_400, description="about how many seconds between two full lists")
    drain_timeout: Seconds = Field(
        20, ge=0.1, le=300, description="seconds that a stopping operator has to finish work in flight"
    )
    seed: int | None = Field(None, description="seed that makes jitter repeatable")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="lowest level that is logged")

    fault_conditions: str = Field(
        ",".join(sorted("=".join(one) for one in KNOWN_CONDITIONS)),
        pattern=r"^([A-Za-z0-9./_-]+=(True|False|Unknown)(,[A-Za-z0-9./_-]+=(True|False|Unknown))*)?$",
        max_length=2000,
        description="conditions of nodes that say that the hardware is broken, TYPE=STATUS with commas between them",
        examples=[",".join((*sorted("=".join(one) for one in KNOWN_CONDITIONS), "GpuHealthy=False"))],
    )
    fault_taints: str = Field(
        "",
        pattern=r"^([A-Za-z0-9./_-]+(,[A-Za-z0-9./_-]+)*)?$",
        max_length=2000,
        description="keys of taints of nodes that say the same, with commas between them",
        examples=["example.com/gpu-broken"],
    )

    feature_gates: str = Field(
        "",
        max_length=2000,
        description="feature gates, NAME=true or NAME=false with commas between them; all are off unless they are"
        " turned on here; an unknown name lists all names",
        examples=["PeerCopies=true"],
    )
    patience: dict[str, Seconds] = Field(
        default_factory=dict,
        description="seconds that the operator waits, by name; an unknown name lists all names",
    )

    @field_validator("patience")
    @classmethod
    def _known(cls, value: dict[str, float]) -> dict[str, float]:
        allowed = sorted(f.name for f in fields(OperatorConfig) if f.type is timedelta)
        if unknown := sorted(set(value) - set(allowed)):
            raise ValueError(f"{', '.join(unknown)}: unknown duration; allowed are {', '.join(allowed)}")
        return value

    @field_validator("feature_gates")
    @classmethod
    def _known_gates(cls, value: str) -> str:
        gates.read(value)
        return value

    @model_validator(mode="after")
    def _lease_fits(self) -> "Settings":
        if self.lease_renew * 2 > self.lease_duration:
            raise ValueError(
                f"--lease-renew: {self.lease_renew:g}: must be at most half of --lease-duration"
                f" ({self.lease_duration:g} seconds): otherwise one slow answer loses the leadership"
            )
        return self

    @property
    def service_url(self) -> str:
        """The URL of the progress endpoint for pods."""
        port = self.progress_bind.rpartition(":")[2]
        return self.progress_url or f"https://holdfast.{self.namespace}.svc:{port}"

    def fault_signs(self) -> FaultSigns:
        """What says that a node is broken."""
        pairs = (pair.partition("=") for pair in self.fault_conditions.split(",") if pair)
        return FaultSigns(
            conditions=frozenset((kind, state) for kind, _, state in pairs),
            taints=frozenset(key for key in self.fault_taints.split(",") if key),
        )

    def operator_config(self) -> OperatorConfig:
        """The settings that decisions depend on."""
        spans = {name: timedelta(seconds=seconds) for name, seconds in self.patience.items()}
        config = OperatorConfig(
            init_image=self.init_image, progress_url=self.service_url, gates=gates.read(self.feature_gates)
        )
        return replace(config, **spans)  # type: ignore[arg-type]


def split_address(address: str) -> tuple[str | None, int]:
    """Host (None for all) and port of a HOST:PORT address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]") or None, int(port)
