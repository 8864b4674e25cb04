import io
import json
import logging

import pytest

from holdfast.runtime import logs

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOlsiaG9sZGZhc3QiXX0.c2lnbmF0dXJlLXNpZ25hdHVyZQ"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {TOKEN}",
        f"token {TOKEN} refused",
        "AWS_SECRET_ACCESS_KEY=c2lnbmF0dXJlLXNpZ25hdHVyZQ",
        '{"password": "c2lnbmF0dXJlLXNpZ25hdHVyZQ"}',
        "-----BEGIN PRIVATE KEY-----\nc2lnbmF0dXJlLXNpZ25hdHVyZQ\n-----END PRIVATE KEY-----",
        "secret_access_key: 'c2lnbmF0dXJlLXNpZ25hdHVyZQ'",
    ],
)
def test_secrets_do_not_pass(text: str) -> None:
    assert "c2lnbmF0dXJl" not in logs.redact(text)
    assert logs.HIDDEN in logs.redact(text)


def test_plain_words_pass() -> None:
    text = "job ns/a: attempt 3 lost, the token bucket waits; 2.1x cheaper"
    assert logs.redact(text) == text


def test_lines_are_json_with_fields_and_hidden_secrets() -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.configure("INFO", stream)
        logger = logging.getLogger("holdfast.test")
        logger.info(
            "decided",
            extra={"job": "ns/a", "attempt": 3, "trace": ["x"], "authorization": "abc", "note": f"Bearer {TOKEN}"},
        )
        try:
            raise ValueError(f"Bearer {TOKEN}")
        except ValueError:
            logger.exception("failed with %s", TOKEN)
    finally:
        root.handlers[:], root.level = handlers, level
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["job"], first["attempt"], first["trace"]) == ("ns/a", 3, ["x"])
    assert first["authorization"] == logs.HIDDEN
    assert "ValueError" in json.dumps(second)
    assert "c2lnbmF0dXJl" not in stream.getvalue()
