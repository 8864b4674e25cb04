"""Read a job's commit log directly from the bucket."""

from holdfast_local.state import S3Access
from holdfast_train.commitlog.records import Record, decode


def commit_log(s3: S3Access, prefix: str) -> list[Record]:
    """Every record of the log below the prefix, in order. CheckpointCorruptError if one is damaged."""
    client = s3.client()
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=s3.bucket, Prefix=f"{prefix}/log/")
    keys = sorted(item["Key"] for page in pages for item in page.get("Contents", ()))
    bodies = (client.get_object(Bucket=s3.bucket, Key=key)["Body"].read() for key in keys)
    return [decode(body, seq)[0] for seq, body in enumerate(bodies, 1)]
