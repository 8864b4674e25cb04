"""What the operator asks for: the variable HOLDFAST_DATA, one entry for each of trainer.data."""

import json
from dataclasses import dataclass
from typing import Final

from holdfast_train.environment import Credentials
from holdfast_train.errors import EnvironmentVariableError
from holdfast_train.storage.opening import open_storage
from holdfast_train.storage.retrying import RetryingStorage

__all__ = ["VARIABLE", "Request", "read_requests"]

VARIABLE: Final = "HOLDFAST_DATA"


@dataclass(frozen=True)
class Request:
    """Objects below `uri` that are wanted in `folder`, which is `mount` or below it. `keys`: a folder with keys."""

    uri: str
    folder: str
    mount: str
    endpoint: str | None = None
    region: str | None = None
    keys: str | None = None

    def open(self) -> RetryingStorage:
        """The store of the objects, with retries. StorageInvalidError if `uri` is not an address."""
        found = open_storage(
            self.uri, endpoint=self.endpoint, region=self.region, credentials=Credentials(folder=self.keys)
        )
        return RetryingStorage(found)


def read_requests(text: str) -> tuple[Request, ...]:
    """The requests. EnvironmentVariableError if `text` is not what the operator writes."""
    try:
        return tuple(
            Request(one["from"], one["to"], one["mount"], one.get("endpoint"), one.get("region"), one.get("keys"))
            for one in json.loads(text)
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise EnvironmentVariableError(
            f"{VARIABLE} is {text[:200]!r}; allowed: a list of objects with the fields from, to and mount ({error!r})"
        ) from error
