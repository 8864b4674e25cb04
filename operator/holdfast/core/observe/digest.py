"""`digest`: stands for a namespace or a job in the status of a profile, which every user of the cluster can read."""

import hashlib
from functools import lru_cache


@lru_cache(maxsize=8192)
def digest(text: str) -> str:
    """The first 16 hexadecimal digits of the SHA-256 sum."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
