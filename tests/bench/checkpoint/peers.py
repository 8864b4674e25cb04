"""What others take to do the same: clients set up against a null server."""

import importlib.util
from datetime import timedelta
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

BUCKET, KEY = "bucket", "key"


def boto3_client(port: int, *, secret: str = "secret", **config: Any) -> Any:
    """As shipped, but for `config`. `secret`: the key beside the access key `access`."""
    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="access",
        aws_secret_access_key=secret,
        config=Config(s3={"addressing_style": "path"}, **config),
    )


@cache
def obstore_store(port: int) -> Any:
    """With what makes it fast and checks what it sends."""
    import obstore.store

    return obstore.store.S3Store(
        BUCKET,
        endpoint=f"http://127.0.0.1:{port}",
        region="us-east-1",
        access_key_id="access",
        secret_access_key="secret",
        unsigned_payload=True,
        checksum_algorithm="CRC64NVME",
        client_options={"allow_http": True, "timeout": timedelta(seconds=60)},
    )


def missing(module: str) -> str | None:
    """Why `module` is not measured, None if it is there."""
    if importlib.util.find_spec(module) is None:
        return f"{module} is not installed, so it was not measured (requirements/bench.txt has it)"
    return None


@cache
def torch_connector(port: int, **config: Any) -> Any:
    """Its checkpoint reader and writer. Keys come from the environment: it takes them from nowhere else."""
    from s3torchconnector import S3Checkpoint, S3ClientConfig

    return S3Checkpoint(
        "us-east-1",
        endpoint=f"http://127.0.0.1:{port}",
        s3client_config=S3ClientConfig(force_path_style=True, **config),
    )
