"""Where the checkpoints of a job are stored."""

from typing import ClassVar

from holdfast.api.model import Model
from holdfast.api.names import CHECKPOINT_PATH
from holdfast.api.rules import Rule, exactly_one
from holdfast.api.s3 import S3Server
from holdfast.api.strings import Bucket, ObjectName, RelativePath


class S3Storage(S3Server):
    """A prefix in an S3 bucket. The job owns everything below the prefix."""

    bucket: Bucket
    """Name of the bucket. The bucket must exist."""
    prefix: RelativePath
    """Prefix of all objects of this job, such as vision/vit-faces. Two jobs must not use the same prefix."""


class VolumeClaimStorage(Model):
    """A folder in a PersistentVolumeClaim. The job owns everything in the folder."""

    name: ObjectName
    """Name of the claim in the job's namespace. Every node of every tier must be able to mount it."""
    path: RelativePath
    """Folder in the volume, such as vision/vit-faces. Two jobs must not use the same folder."""


class Storage(Model):
    """Where checkpoints are stored. Set exactly one field."""

    s3: S3Storage | None = None
    """Store checkpoints in an S3 bucket."""
    volume_claim: VolumeClaimStorage | None = None
    """Store checkpoints in a PersistentVolumeClaim."""

    rules: ClassVar[tuple[Rule, ...]] = (exactly_one("s3", "volumeClaim"),)

    @property
    def uri(self) -> str:
        """Its address, as pods see it."""
        if self.s3 is not None:
            return f"s3://{self.s3.bucket}/{self.s3.prefix}"
        assert self.volume_claim is not None  # exactly one is set
        return f"file://{CHECKPOINT_PATH}/{self.volume_claim.path}"

    def below(self, folder: str) -> "Storage":
        """The same storage, at a folder below its prefix or path."""
        if self.s3 is not None:
            return Storage(s3=self.s3.model_copy(update={"prefix": f"{self.s3.prefix}/{folder}"}))
        assert self.volume_claim is not None
        return Storage(volume_claim=self.volume_claim.model_copy(update={"path": f"{self.volume_claim.path}/{folder}"}))
