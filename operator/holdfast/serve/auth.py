"""Identify the caller of a request by its bearer token. The API server reviews every token once.

Pods show a service-account token for audience `holdfast`; it belongs to one pod.
"""

import asyncio
import base64
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import time
from typing import Any, Generic, TypeVar

from holdfast.api import names
from holdfast.api.errors import HoldfastError
from holdfast.serve.token_bucket import TokenBuckets

REMEMBERED = 20_000  # valid tokens
REMEMBERED_REFUSALS = 5_000  # invalid tokens
VALID_FOR = 600.0  # seconds until a valid token is reviewed again
REFUSED_FOR = 5.0  # seconds until an invalid token is reviewed again
MAX_TOKEN = 16 * 1024  # characters
REVIEW_RATE, REVIEW_BURST = 1.0, 10.0  # reviews of invalid tokens of one name from one source: a second, and at once
SOURCE_RATE, SOURCE_BURST = 10.0, 200.0  # the same for one source, for all pods that its tokens name
PAYERS = 20_000  # whose rates are remembered
REVIEWS_AT_ONCE = 32  # the connections to the API server are shared with the operator's writes

Who = TypeVar("Who")
Claims = Mapping[str, Any]


class TooManyTokensError(HoldfastError):
    """Too many invalid tokens were shown lately. This token was not reviewed; the caller may try again."""


class UnknownPodError(HoldfastError):
    """The token names a pod that this operator does not know. It was not reviewed."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The pod that a token belongs to, as the API server says."""

    namespace: str
    pod_uid: str


@dataclass(slots=True)
class _Answer(Generic[Who]):
    identity: Who
    until: float


def bearer_token(header: str | None) -> str | None:
    """The token of an Authorization header; None if there is none, or if it is too long."""
    scheme, _, token = (header or "").partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and 0 < len(token) <= MAX_TOKEN else None


def claims_of(token: str) -> Claims:
    """The claims of a JWT, not verified; empty if the text is not a JWT."""
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def expiry(claims: Claims) -> float:
    """The `exp` claim in seconds since 1970; 0 if there is none.

    The claim is not verified: it can only shorten how long an answer is kept.
    """
    try:
        return float(claims["exp"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0.0


def has_our_audience(claims: Claims) -> bool:
    """True if the token names audience `holdfast`.

    The claim is not verified: it can only save a request to the API server.
    """
    audience = claims.get("aud")
    return audience == names.TOKEN_AUDIENCE or (isinstance(audience, list) and names.TOKEN_AUDIENCE in audience)


def claimed_pod(claims: Claims) -> str:
    """The UID of the pod that the token names; empty if it names none.

    The claim is not verified: it can only save a request to the API server.
    """
    bound = claims.get("kubernetes.io")
    pod = bound.get("pod") if isinstance(bound, dict) else None
    uid = pod.get("uid") if isinstance(pod, dict) else None
    return uid if isinstance(uid, str) else ""


class ReviewedTokens(Generic[Who]):
    """Calls `review` once for every token. Only a hash of the token is kept. `clock` is wall time in seconds.

    A review takes from the bucket of its source and from that of the name that the token claims, and a valid token
    gives its part back: invalid tokens use up the buckets of the source that sends them, and no other ones.
    """

    def __init__(
        self,
        review: Callable[[str], Awaitable[Who | None]],
        clock: Callable[[], float] = time,
        *,
        valid_for: float = VALID_FOR,
    ) -> None:
        self._review = review
        self._clock = clock
        self._valid_for = valid_for
        self._sources = TokenBuckets(SOURCE_RATE, SOURCE_BURST, PAYERS, clock)
        self._names = TokenBuckets(REVIEW_RATE, REVIEW_BURST, PAYERS, clock)
        self._at_once = asyncio.Semaphore(REVIEWS_AT_ONCE)
        self._known: OrderedDict[bytes, _Answer[Who]] = OrderedDict()
        # Invalid tokens are kept apart, so that they displace no valid one.
        self._refused: OrderedDict[bytes, float] = OrderedDict()

    async def identify(self, token: str, source: str, name: str = "") -> Who | None:
        """What `review` says of the token; None if the token is not valid.

        `source` is the address of the caller, `name` what the token claims. Raises what `review` raises if the API
        server does not answer, TooManyTokensError if a bucket is empty.
        """
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock()
        known = self._known.get(digest)
        if known and now < known.until:
            return known.identity
        if now < self._refused.get(digest, 0.0):
            return None
        if not self._take(source, name):
            raise TooManyTokensError("too many invalid tokens; try again later")
        async with self._at_once:
            identity = await self._review(token)
        if identity is None:
            _keep(self._refused, digest, now + REFUSED_FOR, REMEMBERED_REFUSALS)
            return None
        self._sources.give_back(source)
        self._names.give_back(f"{source} {name}")
        until = min(expiry(claims_of(token)) or now + REFUSED_FOR, now + self._valid_for)
        _keep(self._known, digest, _Answer(identity, until), REMEMBERED)
        return identity

    def _take(self, source: str, name: str) -> bool:
        if not self._sources.try_acquire(source):
            return False
        if not self._names.try_acquire(f"{source} {name}"):
            self._sources.give_back(source)
            return False
        return True


def _keep(memory: OrderedDict[bytes, Any], digest: bytes, value: Any, most: int) -> None:
    memory[digest] = value
    memory.move_to_end(digest)
    while len(memory) > most:
        memory.popitem(last=False)


class Authenticator:
    """Identifies pods. `is_known` says if the operator knows a pod with this UID.

    A token that names an unknown pod is never reviewed.
    """

    def __init__(
        self,
        review: Callable[[str], Awaitable[Identity | None]],
        is_known: Callable[[str], bool] = lambda uid: True,
        clock: Callable[[], float] = time,
    ) -> None:
        self._tokens = ReviewedTokens(review, clock)
        self._is_known = is_known

    async def identify(self, header: str | None, source: str = "") -> Identity | None:
        """The pod that sent this Authorization header from the address `source`, None if the token is not valid.

        Raises UnknownPodError, and what ReviewedTokens.identify raises.
        """
        token = bearer_token(header)
        claims = claims_of(token) if token else {}
        if token is None or not has_our_audience(claims):
            return None
        uid = claimed_pod(claims)
        if not uid:
            return None
        if not self._is_known(uid):
            raise UnknownPodError("the token names a pod that this operator does not know")
        return await self._tokens.identify(token, source, uid)
