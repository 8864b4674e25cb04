"""Where tortured jobs keep their checkpoints: folders, and the S3 server of the integration tests."""

import uuid
from pathlib import Path
from typing import Any

from tests.support.http.s3_server import S3Server
from tests.torture.campaign import Place

MIB = 1 << 20


def in_folder(folder: Path) -> Place:
    """A new prefix in `folder`. A state is four objects of it and more."""
    prefix = folder / uuid.uuid4().hex

    def unfinished() -> list[str]:
        return [str(path) for path in prefix.rglob(".writing-*")]

    return Place(f"file://{prefix}", {}, 3 * MIB, unfinished)


def in_bucket(server: S3Server) -> Place:
    """A new prefix on `server`. A state is one object in two parts, and a small one."""
    prefix = f"torture/{uuid.uuid4().hex}"

    def unfinished() -> list[str]:
        client: Any = server.client()
        found = client.list_multipart_uploads(Bucket=server.bucket, Prefix=prefix)
        return [upload["Key"] for upload in found.get("Uploads", ())]

    return Place(f"s3://{server.bucket}/{prefix}", server.variables, 64 * MIB, unfinished)
