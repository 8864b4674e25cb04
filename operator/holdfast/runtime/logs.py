"""Structured logs: one JSON object per line, without secrets."""

import logging
import re
import sys
from typing import TextIO

from pythonjsonlogger.json import JsonFormatter

HIDDEN = "[hidden]"
_SECRETS = re.compile(
    r"(?i)(bearer\s+)[\w\-.~+/]+=*"
    r"|(eyJ[\w-]{8,}\.[\w-]+\.)[\w-]+"
    r"|(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    r"|((?:authorization|password|secret[_-]?access[_-]?key|session[_-]?token|aws_secret\w*)[\"']?\s*[:=]\s*[\"']?)"
    r"(?!bearer\b)[^\s\"',}]+",
    re.DOTALL,
)
_SECRET_NAMES = re.compile(r"(?i)(authorization|token|password|secret|private_?key)$")
_ATTEMPT = re.compile(r"Request attempt #(\d+)")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def redact(text: str) -> str:
    """The text without tokens, keys and passwords."""
    return _SECRETS.sub(lambda m: next((g for g in m.groups() if g), "") + HIDDEN, text)


class Redactor(logging.Filter):
    """Removes secrets from a record before a handler formats it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always True; the record is changed."""
        record.msg, record.args = redact(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text, record.exc_info = redact(record.exc_text), None
        for name, value in vars(record).items():
            if name not in _STANDARD:
                hidden = _SECRET_NAMES.search(name) is not None
                if hidden or isinstance(value, str):
                    setattr(record, name, HIDDEN if hidden else redact(value))
        return True


class Thinner(logging.Filter):
    """Keeps the first two failed attempts of a kopf request, then every thirtieth, so that an outage fills no log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False if the record is dropped."""
        attempt = _ATTEMPT.match(record.getMessage())
        return attempt is None or int(attempt[1]) <= 2 or int(attempt[1]) % 30 == 0


def configure(level: str, stream: TextIO | None = None) -> None:
    """Log to this stream (default: standard error). Libraries log at WARNING and above."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        JsonFormatter(
            "{asctime}{levelname}{name}{message}",
            style="{",
            rename_fields={"asctime": "at", "levelname": "level", "name": "logger"},
            datefmt="%Y-%m-%dT%H:%M:%S%z",
        )
    )
    handler.addFilter(Thinner())
    handler.addFilter(Redactor())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("holdfast").setLevel(level)
    logging.getLogger("kopf").setLevel(logging.WARNING)
