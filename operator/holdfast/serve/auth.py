"""Who is calling: a pod, proven by its service-account token for our audience."""

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

REMEMBERED = 20_000
REFUSED = 5_000
LONGEST = 600.0  # seconds that a good answer holds
REFUSED_FOR = 5.0
MAX_TOKEN = 16 * 1024
REVIEW_RATE, REVIEW_BURST = 50.0, 200.0  # bad tokens a second that are asked about, and all that are at once


class BusyError(HoldfastError):
    """Too many tokens that nobody knows were shown lately; this one was not looked at."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the API server says of a token."""

    namespace: str
    pod_uid: str


Review = Callable[[str], Awaitable[Identity | None]]


@dataclass(slots=True)
class _Answer:
    identity: Identity
    until: float


def _claims(token: str) -> dict[str, Any]:
    """What a JWT says of itself, unproven; empty if it is none."""
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def expiry(token: str) -> float:
    """The `exp` claim in seconds since 1970; 0 if there is none. Unproven: it only ever shortens what is kept."""
    try:
        return float(_claims(token)["exp"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0.0


def for_us(token: str) -> bool:
    """False if the token cannot be meant for us. Unproven: it only ever saves a question to the API server."""
    audience = _claims(token).get("aud")
    return audience == names.TOKEN_AUDIENCE or (isinstance(audience, list) and names.TOKEN_AUDIENCE in audience)


class _Allowance:
    """How many questions about tokens that nobody knows may be asked. Those about good ones are given back.

    So a flood of bad tokens is stopped, and all pods may come at once when the operator has started.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = REVIEW_BURST
        self._at = clock()

    def take(self) -> None:
        """Raise BusyError if nothing is left."""
        now = self._clock()
        self._left = min(REVIEW_BURST, self._left + max(0.0, now - self._at) * REVIEW_RATE)
        self._at = now
        if self._left < 1:
            raise BusyError("too many unknown tokens")
        self._left -= 1

    def give_back(self) -> None:
        """The question was worth it."""
        self._left = min(REVIEW_BURST, self._left + 1)


class Authenticator:
    """Asks `review` about every token once. Only a hash of the token is kept. `clock` is wall time in seconds."""

    def __init__(self, review: Review, clock: Callable[[], float] = time) -> None:
        self._review = review
        self._clock = clock
        self._allowance = _Allowance(clock)
        self._known: OrderedDict[bytes, _Answer] = OrderedDict()
        self._refused: OrderedDict[bytes, float] = OrderedDict()  # apart, so that bad tokens push no good one out

    async def identify(self, header: str | None) -> Identity | None:
        """The caller behind an Authorization header, or None.

        Raises what `review` raises if it cannot tell, BusyError if too many unknown tokens were shown.
        """
        scheme, _, token = (header or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
            return None
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock()
        known = self._known.get(digest)
        if known and now < known.until:
            return known.identity
        if now < self._refused.get(digest, 0.0) or not for_us(token):
            return None
        self._allowance.take()
        identity = await self._review(token)
        if identity is None:
            self._refused[digest] = now + REFUSED_FOR
            self._refused.move_to_end(digest)
            while len(self._refused) > REFUSED:
                self._refused.popitem(last=False)
            return None
        self._allowance.give_back()
        self._known[digest] = _Answer(identity, min(expiry(token) or now + REFUSED_FOR, now + LONGEST))
        self._known.move_to_end(digest)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return identity
