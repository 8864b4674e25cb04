import pytest
from tests.support.staging.datasets import variable

from holdfast_train.errors import EnvironmentVariableError, StorageInvalidError
from holdfast_train.staging.request import Request, read_requests


def test_what_the_operator_writes() -> None:
    text = variable({"from": "s3://b/p", "to": "/data/x", "mount": "/data", "endpoint": "http://s3", "keys": "/keys"})
    assert read_requests(text) == (Request("s3://b/p", "/data/x", "/data", "http://s3", None, "/keys"),)
    assert read_requests(text)[0].open().uri == "s3://b/p"


@pytest.mark.parametrize("text", ["", "{", "3", "[3]", '[{"from": "s3://b/p"}]'])
def test_what_it_never_writes(text: str) -> None:
    with pytest.raises(EnvironmentVariableError, match="HOLDFAST_DATA is"):
        read_requests(text)


def test_no_address() -> None:
    with pytest.raises(StorageInvalidError, match="not an address"):
        Request("s3:/b", "/data", "/data").open()
