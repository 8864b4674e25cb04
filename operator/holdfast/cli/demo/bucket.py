"""Read a job's commit log directly from the bucket."""

import json
from typing import Any

import boto3
from botocore.config import Config

from holdfast.local.state import S3Access


def commit_log(s3: S3Access, prefix: str) -> list[dict[str, Any]]:
    """Every record of the log below the prefix, in order."""
    client = boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        aws_access_key_id=s3.access_key,
        aws_secret_access_key=s3.secret_key,
        region_name=s3.region,
        config=Config(s3={"addressing_style": "path"}, proxies={}),
    )
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=s3.bucket, Prefix=f"{prefix}/log/")
    keys = sorted(item["Key"] for page in pages for item in page.get("Contents", ()))
    return [json.loads(client.get_object(Bucket=s3.bucket, Key=key)["Body"].read()) for key in keys]
