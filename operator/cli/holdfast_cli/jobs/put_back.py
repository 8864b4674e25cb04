"""What the next start of a job with checkpoint.folder puts back into the folder, in words. Pure."""

from holdfast.api.job import Checkpoint
from holdfast.api.status import TrainingJobStatus
from holdfast_train.exchange.progress_bar import format_size


def put_back_words(checkpoint: Checkpoint, status: TrainingJobStatus) -> str | None:
    """One sentence with the size of the newest commit; None if no folder is put back, or nothing is committed yet."""
    saved = status.checkpoint
    if checkpoint.folder is None or saved is None or not saved.bytes:
        return None
    size, folder = format_size(saved.bytes), checkpoint.folder
    if checkpoint.put_back == "All":
        return f"the next start puts back all of {folder}, {size}, less what is there; putBack: Newest is less"
    return f"the next start puts back {folder} without old saves; putBack: All is all of it, {size}"
