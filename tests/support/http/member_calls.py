"""The operator's side of the member call: what launchers tell, and what they are told."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Answer = tuple[int, Mapping[str, Any], Mapping[str, str]]  # status, body, headers


class MemberCalls:
    """Keeps what launchers tell. `refusal`: HTTP status and headers with which every call is answered, if it is set."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.refused = 0
        self.refusal: tuple[int, Mapping[str, str]] | None = None
        self._attempt = 0
        self._members: Sequence[str] = ()
        self._predecessor: int | None = None
        self._leaving: set[str] = set()
        self._is_away = False
        self._changed = threading.Condition()

    def newest(self, uid: str) -> dict[str, Any]:
        """What this pod told last; empty if it told nothing."""
        return next((body for body in reversed(self.told) if body["podUID"] == uid), {})

    def begin(self, attempt: int, *members: str, predecessor: int | None = None) -> None:
        """Begin this attempt with the pods of these UIDs, in the order of their ranks, as soon as all are ready."""
        with self._changed:
            self._attempt, self._members, self._predecessor = attempt, members, predecessor
            self._changed.notify_all()

    def let_leave(self, uid: str) -> None:
        """Tell this pod to leave when it is ready."""
        with self._changed:
            self._leaving.add(uid)
            self._changed.notify_all()

    def wait_for(self, uid: str, state: str, attempt: int, seconds: float) -> dict[str, Any]:
        """What this pod has told in this state and attempt, waiting for it."""

        def found() -> Iterator[dict[str, Any]]:
            return (one for one in self.told if (one["podUID"], one["state"], one["attempt"]) == (uid, state, attempt))

        with self._changed:
            if not self._changed.wait_for(lambda: any(found()), seconds):
                raise TimeoutError(f"{uid} did not tell that it is {state}; the last ones: {self.told[-4:]}")
            return next(found())

    def wait_for_refusals(self, count: int, seconds: float = 60.0) -> None:
        """Wait until so many calls were refused."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.refused >= count, seconds):
                raise TimeoutError(f"only {self.refused} calls were refused")

    def answer(self, body: dict[str, Any], wait: float) -> Answer | None:
        """The answer to one call, after at most `wait` seconds. None while the operator is away."""
        with self._changed:
            if self._is_away:
                return None
            if self.refusal is not None:
                self.refused += 1
                self._changed.notify_all()
                status, headers = self.refusal
                return status, {}, headers
            self.told.append(body)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_away or self._order(body) is not None, wait)
            return None if self._is_away else (200, self._order(body) or {"do": "wait"}, {})

    def set_away(self, is_away: bool) -> None:
        """Answer no call from now on, or answer again."""
        with self._changed:
            self._is_away = is_away
            self._changed.notify_all()

    def _order(self, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
        uid = body["podUID"]
        if body["state"] == "ready" and uid in self._leaving:
            return {"do": "leave"}
        if uid not in self._members or body["attempt"] >= self._attempt:
            return None
        if body["state"] == "running":
            return {"do": "regroup", "attempt": self._attempt}
        newest = [self.newest(member) for member in self._members]
        # One that runs this attempt was ready: its launcher got the order already.
        if any(not one or (one["state"] != "ready" and one["attempt"] < self._attempt) for one in newest):
            return None
        first = next(
            one for one in reversed(self.told) if one["podUID"] == self._members[0] and one["state"] == "ready"
        )
        return {
            "do": "start",
            "attempt": self._attempt,
            "address": first["address"],
            "port": first["port"],
            "predecessor": self._predecessor,
        }
