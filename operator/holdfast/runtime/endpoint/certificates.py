"""The certificates of this process's servers, and their renewal while it runs."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from holdfast.serve.authority import SKEW, KeyPair
from holdfast.serve.certs import SERVING_LIFE, make_serving, server_context, show

log = logging.getLogger(__name__)

RENEWED_AFTER: Final = SERVING_LIFE / 3
_LOOKS_EVERY: Final = 3600.0  # seconds; a clock that is set by hours is found at the next look


class Certificates:
    """Certificates that one CA signs. Each is renewed after a third of its life, or if the clock was set back."""

    def __init__(self, ca: KeyPair, now: Callable[[], datetime]) -> None:
        self.ca = ca
        self._now = now
        self._contexts: list[tuple[ssl.SSLContext, Sequence[str]]] = []
        self._made_at = now()

    def context(self, hosts: Sequence[str]) -> ssl.SSLContext:
        """A context for a server with these names, whose certificate is renewed from now on."""
        context = server_context(make_serving(self.ca, hosts, self._now()))
        self._contexts.append((context, hosts))
        return context

    def renew_if_due(self) -> None:
        """Make new certificates for all contexts if the present ones are old, or not valid yet."""
        now = self._now()
        if self._made_at - SKEW < now < self._made_at + RENEWED_AFTER:
            return
        for context, hosts in self._contexts:
            show(context, make_serving(self.ca, hosts, now))
        self._made_at = now
        log.info("renewed the certificates of %d servers", len(self._contexts))

    async def run(self) -> None:
        """Renew them in time, until cancelled."""
        while True:
            await asyncio.sleep(_LOOKS_EVERY)
            self.renew_if_due()
