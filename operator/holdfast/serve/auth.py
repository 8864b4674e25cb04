"""Who is calling: a pod, proven by its service-account token for our audience."""

import base64
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import time

REMEMBERED = 20_000
LONGEST = 600.0  # seconds that a good answer holds
REFUSED_FOR = 5.0
MAX_TOKEN = 16 * 1024


@dataclass(frozen=True, slots=True)
class Identity:
    """What the API server says of a token."""

    namespace: str
    pod_uid: str


Review = Callable[[str], Awaitable[Identity | None]]


@dataclass(slots=True)
class _Answer:
    identity: Identity | None
    until: float


def expiry(token: str) -> float:
    """The `exp` claim in seconds since 1970; 0 if there is none. Unproven: it only ever shortens what is kept."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return 0.0


class Authenticator:
    """Asks `review` about every token once. Only a hash of the token is kept. `clock` is wall time in seconds."""

    def __init__(self, review: Review, clock: Callable[[], float] = time) -> None:
        self._review = review
        self._clock = clock
        self._known: OrderedDict[bytes, _Answer] = OrderedDict()

    async def identify(self, header: str | None) -> Identity | None:
        """The caller behind an Authorization header, or None. Raises what `review` raises if it cannot tell."""
        scheme, _, token = (header or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
            return None
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock()
        known = self._known.get(digest)
        if known and now < known.until:
            return known.identity
        identity = await self._review(token)
        until = min(expiry(token) or now + REFUSED_FOR, now + LONGEST) if identity else now + REFUSED_FOR
        self._known[digest] = _Answer(identity, until)
        self._known.move_to_end(digest)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return identity
