"""Callers without a right, in a process of their own: scrapers in a loop, and forged tokens at a steady rate.

`python -m tests.bench.strangers` runs until its standard input is closed, and prints how often each answer came.
"""

import argparse
import asyncio
import base64
import json
import ssl
import sys
import uuid
from collections import Counter

import aiohttp

SCRAPERS = 50
TOKENS = 1000  # a second
OUTSTANDING = 200  # forged tokens that wait for their answer
# Strangers have addresses of their own, as pods do.
SCRAPER_ADDRESS, FORGER_ADDRESS = "127.0.0.66", "127.0.0.67"


def forged(uid: str) -> str:
    """A token with the right audience and a wrong signature, never the same one twice."""
    claims = {"aud": ["holdfast"], "exp": 9e9, "jti": uuid.uuid4().hex, "kubernetes.io": {"pod": {"uid": uid}}}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"aGVhZA.{body}.c2ln"


def _session(address: str, limit: int, context: ssl.SSLContext | None = None) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=limit, local_addr=(address, 0), ssl=context if context else True)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=10))


async def _ask(count: Counter[str], session: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> None:
    try:
        async with session.get(url, headers=headers) as answer:
            await answer.read()
            count[str(answer.status)] += 1
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        count[type(error).__name__] += 1
        await asyncio.sleep(0.01)


async def _scrape(count: Counter[str], session: aiohttp.ClientSession, url: str) -> None:
    while True:
        await _ask(count, session, url, {})


async def _forge(count: Counter[str], session: aiohttp.ClientSession, url: str, known: list[str]) -> None:
    """Half of the tokens name a pod that trains, half name one that does not exist."""
    loop, waiting, number = asyncio.get_running_loop(), set[asyncio.Task[None]](), 0
    started = loop.time()
    try:
        while True:
            number += 1
            uid = known[number % len(known)] if number % 2 else str(uuid.uuid4())
            if len(waiting) < OUTSTANDING:
                one = asyncio.create_task(_ask(count, session, url, {"Authorization": f"Bearer {forged(uid)}"}))
                waiting.add(one)
                one.add_done_callback(waiting.discard)
            else:
                count["not sent"] += 1
            await asyncio.sleep(max(0.0, started + number / TOKENS - loop.time()))
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def main() -> None:
    """Run until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--metrics", required=True)
    parser.add_argument("--orders", required=True)
    parser.add_argument("--pods", required=True, help="UIDs, with commas")
    options = parser.parse_args()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    scrapes, forgeries = Counter[str](), Counter[str]()
    async with _session(SCRAPER_ADDRESS, 0) as plain, _session(FORGER_ADDRESS, 0, context) as secure:
        tasks = [asyncio.create_task(_scrape(scrapes, plain, options.metrics)) for _ in range(SCRAPERS)]
        tasks.append(asyncio.create_task(_forge(forgeries, secure, options.orders, options.pods.split(","))))
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    sys.stdout.write(json.dumps({"scrapes": scrapes, "forged": forgeries}) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
