"""Identify the pod that calls, by its service-account token for audience `holdfast`."""

import base64
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import time
from typing import Any

from holdfast.api import names
from holdfast.api.errors import HoldfastError
from holdfast.serve.token_bucket import TokenBucket

REMEMBERED = 20_000  # valid tokens
REMEMBERED_REFUSALS = 5_000  # invalid tokens
VALID_FOR = 600.0  # seconds until a valid token is reviewed again
REFUSED_FOR = 5.0  # seconds until an invalid token is reviewed again
MAX_TOKEN = 16 * 1024  # characters
REVIEW_RATE, REVIEW_BURST = 50.0, 200.0  # reviews of invalid tokens: a second, and at once


class TooManyTokensError(HoldfastError):
    """Too many invalid tokens were shown lately. This token was not reviewed; the caller may try again."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The pod that a token belongs to, as the API server says."""

    namespace: str
    pod_uid: str


Review = Callable[[str], Awaitable[Identity | None]]


@dataclass(slots=True)
class _Answer:
    identity: Identity
    until: float


def _claims(token: str) -> dict[str, Any]:
    """The claims of a JWT, not verified; empty if the text is not a JWT."""
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def expiry(token: str) -> float:
    """The `exp` claim in seconds since 1970; 0 if there is none.

    The claim is not verified: it can only shorten how long an answer is kept.
    """
    try:
        return float(_claims(token)["exp"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0.0


def has_our_audience(token: str) -> bool:
    """True if the token names audience `holdfast`.

    The claim is not verified: it can only save a request to the API server.
    """
    audience = _claims(token).get("aud")
    return audience == names.TOKEN_AUDIENCE or (isinstance(audience, list) and names.TOKEN_AUDIENCE in audience)


class Authenticator:
    """Calls `review` once for every token. Only a hash of the token is kept. `clock` is wall time in seconds.

    Reviews of unknown tokens take from a bucket, and a valid token gives its part back: a flood of invalid tokens is
    stopped, and all pods may connect at once after a start of the operator.
    """

    def __init__(self, review: Review, clock: Callable[[], float] = time) -> None:
        self._review = review
        self._clock = clock
        self._reviews = TokenBucket(REVIEW_RATE, REVIEW_BURST, clock)
        self._known: OrderedDict[bytes, _Answer] = OrderedDict()
        # Invalid tokens are kept apart, so that they displace no valid one.
        self._refused: OrderedDict[bytes, float] = OrderedDict()

    async def identify(self, header: str | None) -> Identity | None:
        """The pod that sent this Authorization header, None if the token is not valid.

        Raises what `review` raises if the API server does not answer, TooManyTokensError if the bucket is empty.
        """
        scheme, _, token = (header or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
            return None
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock()
        known = self._known.get(digest)
        if known and now < known.until:
            return known.identity
        if now < self._refused.get(digest, 0.0) or not has_our_audience(token):
            return None
        if not self._reviews.try_acquire():
            raise TooManyTokensError("too many unknown tokens")
        identity = await self._review(token)
        if identity is None:
            self._refused[digest] = now + REFUSED_FOR
            self._refused.move_to_end(digest)
            while len(self._refused) > REMEMBERED_REFUSALS:
                self._refused.popitem(last=False)
            return None
        self._reviews.give_back()
        self._known[digest] = _Answer(identity, min(expiry(token) or now + REFUSED_FOR, now + VALID_FOR))
        self._known.move_to_end(digest)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return identity
