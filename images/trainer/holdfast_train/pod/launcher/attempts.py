"""Training on several nodes: the program of this node is started again for each attempt that the operator orders.

The pods of a training meet at the operator. When each launcher has said that it is ready, all get the same order: the
number of an attempt, and where rank 0 listens. When one of them loses its program or its node, the others end theirs,
and all meet again. The pods stay.

With `checkpoint.folder` each attempt has a writer of its own on each node. From the order to start until the writer has
ended, the launcher tells the operator that it works for the attempt, and takes an order to regroup.
"""

from __future__ import annotations

import queue
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from holdfast_protocol import reasons, settings, variables
from holdfast_protocol.member import LEAVE, MOST_IMPORTS, READY, RUNNING, START, MemberOrder, MemberReport
from holdfast_protocol.verdict import Verdict, shorten

from .connection import Connection
from .in_place import in_place
from .keeper import Keeper, keeper
from .left_ranks import LeftRanks
from .member import Member, attempt_variables, read_member, why_refused
from .member_call import TIMEOUT, MemberCall
from .process_tree import adopt_orphans, collect, end_descendants
from .program import MISCONFIGURED, KeptProcess, Log, Program, Starter, refusal
from .progress.relay import progress, same_in_each_attempt
from .timings import USUAL, Timings
from .verdict import End, classify
from .verdict_files import say, verdict_folder
from .warm.spare import Spare
from .warm.told import LIBRARIES

if TYPE_CHECKING:
    from .folder_writer import Run

KILL_SECONDS = 30.0  # for processes to end after SIGKILL: one that hangs in a driver does not
HOOK = Path(__file__).resolve().parents[1]  # the file of the launcher, which has sitecustomize beside this package
FINAL = ("completed", "misconfigured", "fenced")  # outcomes after which no other attempt in this pod makes sense


def run_attempts(command: Sequence[str], environment: dict[str, str], grace: float, log: Log | None = None) -> Verdict:
    """Run the command once for each attempt that the operator orders. The verdict on the last one."""
    if why := why_refused(command, environment):
        return classify(refusal(MISCONFIGURED, "OptionRefused", why))
    try:
        member = read_member(environment)
        HeldPort(member.address).release()
    except ValueError as error:
        return classify(refusal(MISCONFIGURED, "EnvironmentInvalid", str(error)))
    adopt_orphans()
    cold = not settings.read(environment).warm_start
    with (
        keeper() as kept,
        closing(Starter() if cold else Spare(command, HOOK)) as starter,
        in_place(environment) as process,
    ):
        if kept is not None:
            environment[variables.KEEPER] = kept.address
        return _Attempts(command, environment, grace, member, kept, starter=starter, process=process, log=log).run()


class HeldPort:
    """A free port of this pod. It stays free, because this object has it, until `release`. ValueError if there is none.

    Between `release` and the moment at which the program listens, another process could take it: then that attempt
    fails, and the next one has another port.
    """

    def __init__(self, address: str, not_this: int = 0) -> None:
        self._socket = _bound(address)
        if self.number == not_this:  # processes of the attempt before may still try to connect to it
            held, self._socket = self._socket, _bound(address)
            held.close()

    @property
    def number(self) -> int:
        """The port."""
        port: int = self._socket.getsockname()[1]
        return port

    def release(self) -> None:
        """Let the program have the port."""
        self._socket.close()


def _bound(address: str) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        found.bind((address, 0))
    except OSError as error:
        found.close()
        raise ValueError(f"{variables.POD_IP} is {address!r}; allowed: an address of this pod ({error})") from error
    return found


class _Attempts:
    """The attempts of one pod, one after the other."""

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        grace: float,
        member: Member,
        kept: Keeper | None,
        *,
        starter: Starter,
        process: KeptProcess | None = None,
        log: Log | None = None,
        timings: Timings = USUAL,
    ) -> None:
        self._log = log
        self._kept = kept
        self._timings = timings
        self._starter = starter
        self._process = process or KeptProcess()
        self._command = command
        self._environment = environment
        self._grace = grace
        self._member = member
        self._attempt = 0  # the newest that this launcher has started,
        self._verdict: Verdict | None = None  # and how its program ended
        self._port = 0  # that was offered last
        self._orders: queue.Queue[MemberOrder] = queue.Queue()  # not a SimpleQueue: see FolderWriter
        self._signal: int | None = None  # that came while no program ran
        self._signalled = threading.Event()  # that it came

    def run(self) -> Verdict:
        """The verdict on the last attempt."""
        self._listen()
        self._prepare()
        while True:
            order = self._wait_for_order()
            if order is not None and order.do == LEAVE:
                say("no attempt follows: this pod ends")
            if order is None or order.do == LEAVE:
                return self._left()
            verdict, may_go_on = self._run_attempt(order)
            if not may_go_on:
                return verdict
            self._verdict = verdict

    # Ready, and waiting.

    def _listen(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signal = self._signal or number
        self._signalled.set()

    def _prepare(self) -> None:
        """Import what the program imports, in a process of its own, while the other nodes still train."""
        imports = [name for name in settings.read(self._environment).imports if name in LIBRARIES]
        if imports:
            first = attempt_variables(self._environment, self._member, MemberOrder(START, 1, self._member.address, 1))
            self._starter.prepare(imports, first | same_in_each_attempt(first), self._signalled)

    def _wait_for_order(self) -> MemberOrder | None:
        """Say that this node is ready, and wait for an order. None if a signal came."""
        held = self._hold_port()
        if held is None:
            return None
        self._port = held.number
        verdict = None if self._verdict is None else shorten(self._verdict)
        ready = MemberReport(self._member.pod_uid, self._attempt, READY, self._member.address, held.number, verdict)
        call = self._call(lambda: ready, self._orders.put)
        say(f"node {self._member.rank} of {self._member.nodes} is ready; waits until all are")
        call.start()
        try:
            while self._signal is None:
                with suppress(queue.Empty):
                    return self._orders.get(timeout=self._timings.signal_look)
                collect()
            return None
        finally:
            call.stop()
            held.release()

    def _hold_port(self) -> HeldPort | None:
        """A free port. While the pod has none, or its address is away, this waits. None if a signal came."""
        told = ""
        while self._signal is None:
            try:
                return HeldPort(self._member.address, not_this=self._port)
            except ValueError as error:
                if told != str(error):
                    told = str(error)
                    say(f"{told}; still trying")
            time.sleep(self._timings.signal_look)
        return None

    def _call(self, report: Callable[[], MemberReport], on_order: Callable[[MemberOrder], None]) -> MemberCall:
        return MemberCall(Connection(self._member.target, TIMEOUT), report, on_order)

    def _running(self) -> MemberReport:
        imports = tuple(self._starter.imports)[:MOST_IMPORTS]
        return MemberReport(self._member.pod_uid, self._attempt, RUNNING, imports=imports)

    def _left(self) -> Verdict:
        """The verdict if the pod ends while no program runs."""
        last = self._verdict
        if last is not None and (self._signal is None or last.reason == reasons.SAVED_AND_LEFT):
            return last
        verdict = classify(End(None, self._signal or signal.SIGTERM, time.time()))
        when = f"after the end of attempt {self._attempt}" if self._attempt else "before the first attempt had begun"
        verdict = replace(verdict, message=f"notice to leave {when}, while no program ran")
        return verdict if last is None else replace(verdict, step=last.step, saved_step=last.saved_step)

    # The program of one attempt.

    def _run_attempt(self, order: MemberOrder) -> tuple[Verdict, bool]:
        """The verdict on one attempt, and whether this pod may take part in another one."""
        stuck: list[int] = []
        with (
            verdict_folder(self._variables(order)) as folder,
            progress(self._variables(order, folder), folder) as (environment, listeners),
        ):
            program = Program(
                self._command, environment, self._grace, self._starter, listeners, kept=self._process, log=self._log
            )
            program.listen()
            if self._signal is not None:
                return self._left(), False
            self._attempt = order.attempt
            say(f"attempt {order.attempt} starts: node {self._member.rank} of {self._member.nodes}")
            call = self._call(self._running, partial(self._regroup, program, folder))
            call.start()
            if self._kept is not None:
                self._kept.expect_program()
            run = partial(self._run_program, program, environment, folder, stuck)
            if settings.read(environment).folder:
                end = self._run_with_folder(program, self._variables(order, folder), folder, run, stuck)
            else:
                end = run()
            call.stop()
        self._listen()
        if stuck:
            say(f"these processes do not end after SIGKILL: {', '.join(map(str, stuck))}; this pod ends")
        verdict = classify(end)
        is_last = verdict.outcome in FINAL or program.signalled_at is not None
        return verdict, not is_last and not stuck

    def _run_program(
        self,
        program: Program,
        environment: dict[str, str],
        folder: str | None,
        stuck: list[int],
        on_start: Callable[[], None] = lambda: None,
    ) -> End:
        """Run the program, and end what it leaves. `stuck` gets the processes that do not end."""
        beside = self._starter.beside(program, environment, folder)
        with LeftRanks(folder, program.end_left, program.others), beside:
            return program.run(folder, on_start=on_start, end_rest=partial(self._end_rest, program, stuck))

    def _run_with_folder(
        self, program: Program, environment: dict[str, str], folder: str | None, run: Run, stuck: list[int]
    ) -> End:
        """Run the program with a writer of its folder, and end what the writer leaves."""
        from .folder_writer import run_with_folder  # noqa: PLC0415 - other jobs need none of its imports

        end = run_with_folder(program, environment, folder, run)
        if not stuck:
            self._end_rest(program, stuck)
        return end

    def _end_rest(self, program: Program, stuck: list[int]) -> None:
        stuck.extend(end_descendants(KILL_SECONDS, program.others(), but=self._process.kept))

    def _variables(self, order: MemberOrder, folder: str | None = None) -> dict[str, str]:
        """The environment of an attempt. Each has a folder of its own, so that verdicts of another one do not count."""
        found = attempt_variables(self._environment, self._member, order)
        given = found.get(variables.VERDICT_DIR)
        if folder or given:
            found[variables.VERDICT_DIR] = folder or str(Path(given or "", f"attempt-{order.attempt}"))
        return found

    def _regroup(self, program: Program, folder: str | None, order: MemberOrder) -> None:
        why = "no attempt follows" if order.final else f"attempt {order.attempt} begins"
        say(f"{why}: the program of attempt {self._attempt} is ended")
        program.regroup(folder)
