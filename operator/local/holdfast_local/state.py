"""ROOT/cluster.json: what was started, so that another command can find it, judge it and end it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from holdfast_local.config import ClusterConfig
from holdfast_local.errors import LocalError, NotUpError
from holdfast_local.layout import Layout
from holdfast_local.network.plan import NetworkPlan
from holdfast_local.ports import HOST
from holdfast_local.processes import ProcessRecord


class S3Access(BaseModel):
    """How to reach the S3 server. `bucket` exists."""

    endpoint: str
    access_key: str
    secret_key: str
    region: str = "us-east-1"
    bucket: str = "runs"

    def client(self) -> Any:
        """A client of boto3. No proxy of the user's environment is between it and the server."""
        import boto3  # noqa: PLC0415 - slow to import, and few commands need it
        from botocore.config import Config  # noqa: PLC0415

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 2}, proxies={}),
        )


class ClusterState(BaseModel):
    """The content of ROOT/cluster.json. `phase` is `starting` until everything was ready once."""

    version: Literal[1] = 1
    phase: Literal["starting", "ready"] = "starting"
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    config: ClusterConfig
    server: str
    ports: dict[str, int]
    tools: dict[str, Path]
    s3: S3Access | None = None
    network: NetworkPlan | None = None
    processes: dict[str, ProcessRecord] = Field(default_factory=dict)

    @property
    def address(self) -> str:
        """The address of this machine that nodes, pods and this machine itself can reach."""
        return self.network.address if self.network else HOST

    @property
    def prometheus(self) -> str:
        """The URL of Prometheus' API; empty if the cluster was started without."""
        return f"http://{HOST}:{self.ports['prometheus']}" if self.config.prometheus else ""

    def save(self) -> None:
        """Write the file in one step, readable by its owner only: it contains keys."""
        path = Layout(self.config.root).state
        fresh = path.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
        fresh.replace(path)

    @classmethod
    def load(cls, root: Path) -> "ClusterState":
        """Read the file.

        Raises:
            NotUpError: there is none.
            LocalError: it cannot be read, or another version of Holdfast wrote it.
        """
        path = Layout(root).state
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotUpError(f"{root} has no local cluster: start one with `holdfast local up`") from error
        except (OSError, ValidationError) as error:
            raise LocalError(
                f"{path} cannot be read: {error}\nIf another version of Holdfast wrote it, run `down` with that version"
            ) from error
