"""Why an attempt ended: interruption or failure, by one chain of rules, the most trustworthy first.

torchrun always exits with 1, and Kubernetes reports an evicted trainer that saved and left as Succeeded, so exit codes
come last. The order is: the launcher says that the program is complete or can never work, memory ran out, Holdfast
ordered the attempt to leave, the cluster says that it took the pod, the rest of the launcher's verdict, the exit code.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.api import names
from holdfast.api.attempt import Drain, EndKind, EndReason
from holdfast.api.failure import FailureAction
from holdfast.core.observe.pods import ContainerView, PodView
from holdfast.core.observe.start_trouble import is_ours
from holdfast.core.observe.verdict import parse_verdict
from holdfast_protocol import reasons
from holdfast_protocol.hang import Hang
from holdfast_protocol.verdict import FIRST_CODE, Verdict

MESSAGE_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended. `infrastructure` marks an interruption without a notice: the platform broke something.

    `anywhere` says that the node has no part in it: another node would have met the same trouble. `peer` says if a
    program failed because another one was gone, as its launcher knows it; None if only the message can tell.
    `hang` is what the ranks of the node did when the training hung.
    `at_fault` says that this shows that the node was the cause.
    `pauses` says that the job waits for a correction in place of failing.
    `exit_code` is that of the program, as a shell gives it (128 + N for signal N); None if it is not known. `action` is
    what the user has decided about it.
    """

    kind: EndKind
    reason: str
    message: str = ""
    infrastructure: bool = False
    step: int | None = None
    anywhere: bool = False
    peer: bool | None = None
    exit_code: int | None = None
    action: FailureAction | None = None
    hang: Hang | None = None
    at_fault: bool = False
    pauses: bool = False

    @property
    def blames_node(self) -> bool:
        """True if the node may be the cause, or what happens on it. What people and the scheduler take is healthy."""
        return not self.anywhere and self.reason not in _NOT_THE_NODE


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a pod that has ended."""

    pod: PodView
    drain: Drain | None
    container: ContainerView | None  # the one that decided: the trainer, or Holdfast's init container if that failed
    verdict: Verdict | None

    @classmethod
    def collect(cls, pod: PodView, drain: Drain | None, told: Verdict | None = None) -> "Evidence":
        """From a pod and the order to leave that it had. Containers that Holdfast did not add decide nothing.

        `told` is the verdict on a program whose pod goes on, from its launcher.
        """
        if told is not None:
            return cls(pod, drain, None, told)
        container = pod.trainer
        if container is None or not container.ended:
            ours = (one for one in pod.init if one.name == names.INIT_CONTAINER and one.ended and one.exit_code != 0)
            container = next(ours, container)
        return cls(pod, drain, container, parse_verdict(container.message) if container else None)


# Reasons that a kubelet gives for a pod that it rejected or could not keep; the pod has to be made again elsewhere.
KUBELET_REASONS = frozenset(
    ("Terminated", "Shutdown", "NodeShutdown", "NodeLost", "NodeAffinity", "UnexpectedAdmissionError", "Preempting",
     "TopologyAffinityError")
)  # fmt: skip
# Words of a kubelet that evicts a pod which used more scratch space than its own limit. A node that is low on disk or
# memory evicts pods that kept to theirs.
_OVER_ITS_LIMIT = re.compile(
    "exceeds the total limit of containers|exceeded its local ephemeral storage limit|Usage of EmptyDir volume"
)
# Reasons of the launcher for a storage that does not work now: not the program's fault, and worth another try.
STORAGE_BROKEN = frozenset((reasons.STORAGE_UNREACHABLE, reasons.STORAGE_FAILED))
# Ends in which the node has no part: the storage, another attempt, a person or the scheduler is the cause. A node that
# is drained says so itself.
_NOT_THE_NODE = STORAGE_BROKEN | {
    EndReason.FENCED, EndReason.POD_DELETED, "EvictionByEvictionAPI", "PreemptionByScheduler"
}  # fmt: skip
# Reasons of a container runtime that could not start a container, and its message if the program does not exist.
# A GPU runtime that is missing on a node gives the same message, with "nvidia" in it.
NOT_BEGUN = frozenset(("StartError", "ContainerCannotRun"))
_NO_COMMAND = re.compile("exec.*(executable file not found|no such file)", re.IGNORECASE | re.DOTALL)
# What python3 says if it cannot even begin with the launcher. A program's own errors come with a verdict.
_NO_LAUNCHER = re.compile(
    r"No module named '?encodings|Could not import runpy|"
    r"holdfast-run[^\"\n]*\", line .*(ModuleNotFoundError|ImportError|SyntaxError)",
    re.DOTALL,
)
_SIGKILL, _SIGTERM = 137, 143
# What containerd and a kubelet report of a container whose end they did not see. A program's own 255 has a verdict.
_LOST_CODE, _LOST_REASONS = 255, frozenset(("Unknown", "ContainerStatusUnknown"))
# The launcher's words for a program that a signal ended, and for one that failed without a reason of its own.
_KILLED_REASON, _NO_REASON = reasons.of_signal(9), reasons.USER_EXCEPTION
# torchrun always exits with 1. What it prints last says how the process ended that failed first: -9 means SIGKILL.


def classify(pod: PodView, drain: Drain | None, told: Verdict | None = None) -> End:
    """How a pod ended, or its program; `drain` is the order to leave that it had, `told` what its launcher told."""
    evidence = Evidence.collect(pod, drain, told)
    return next((end for rule in RULES if (end := rule(evidence))), None) or _exit_code(evidence)


def _complete(e: Evidence) -> End | None:
    """The launcher says that the program ended with 0: unasked, or after its training was complete."""
    if e.verdict and e.verdict.outcome == "completed":
        return End(EndKind.COMPLETED, e.verdict.reason, e.verdict.message, step=e.verdict.step)
    return None


def _misconfigured(e: Evidence) -> End | None:
    """Init container or launcher says that this can never work: wrong key, no bucket, prefix in use, no command."""
    if e.verdict and e.verdict.outcome == "misconfigured" and e.verdict.reason not in STORAGE_BROKEN:
        return End(EndKind.MISCONFIGURED, e.verdict.reason, _words(e))
    return None


def _out_of_memory(e: Evidence) -> End | None:
    """The container hit its memory limit, or was evicted beyond its own limit of scratch space."""
    if e.container and e.container.reason == "OOMKilled" and not e.drain:
        text = f"container {e.container.name} was killed for using more memory than its limit"
        return End(EndKind.FAILURE, EndReason.OUT_OF_MEMORY, text, exit_code=_SIGKILL)
    if e.pod.reason == EndReason.EVICTED and _OVER_ITS_LIMIT.search(e.pod.message):
        return End(EndKind.FAILURE, EndReason.EVICTED, _cap(e.pod.message))
    return None


def _ordered_to_leave(e: Evidence) -> End | None:
    """Holdfast ordered it to save and leave: this is why it ended, with any exit code."""
    if e.drain:
        return End(e.drain.kind, e.drain.reason, e.drain.message, step=_step(e))
    return None


def _disrupted(e: Evidence) -> End | None:
    """The cluster says that it took the pod."""
    if e.pod.disruption:
        return End(EndKind.INTERRUPTION, e.pod.disruption, _cap(e.pod.disruption_message), step=_step(e))
    return None


def _deleted(e: Evidence) -> End | None:
    """Somebody else deleted it."""
    if e.pod.deleted_at:
        return End(EndKind.INTERRUPTION, EndReason.POD_DELETED, f"pod {e.pod.name} was deleted", step=_step(e))
    return None


def _kubelet(e: Evidence) -> End | None:
    """The kubelet rejected the pod, or could not keep it."""
    reason = e.pod.reason
    if reason in KUBELET_REASONS or reason.startswith("OutOf") or reason == EndReason.EVICTED:
        return End(EndKind.INTERRUPTION, reason, _cap(e.pod.message), infrastructure=True)
    return None


def _not_begun(e: Evidence) -> End | None:
    """The container runtime could not begin the program: the command is not in the image, or the node is broken."""
    if e.container is None or e.container.reason not in NOT_BEGUN:
        return None
    text = _cap(e.container.message)
    if _NO_COMMAND.search(text) and "nvidia" not in text:
        return End(EndKind.MISCONFIGURED, EndReason.COMMAND_NOT_FOUND, text)
    return End(EndKind.INTERRUPTION, e.container.reason, text, infrastructure=True)


def _python_incomplete(e: Evidence) -> End | None:
    """python3 of the image cannot run the launcher: it lacks a part of its standard library, or is too old."""
    c = e.container
    if e.verdict or c is None or not c.ended or not _NO_LAUNCHER.search(c.message):
        return None
    text = "python3 of the image cannot run the launcher of Holdfast, which needs Python 3.9 or newer, complete"
    return End(EndKind.MISCONFIGURED, EndReason.PYTHON_INCOMPLETE, _cap(f"{text}: {_newest(c.message)}"))


def _container_lost(e: Evidence) -> End | None:
    """The container runtime lost the container: its node restarted, or its shim died. There is no verdict."""
    c = e.container
    if e.verdict or c is None or not c.ended or (c.exit_code != _LOST_CODE and c.reason not in _LOST_REASONS):
        return None
    text = f"exit code {c.exit_code}: the node of container {c.name} restarted, or lost the container's shim"
    return End(EndKind.INTERRUPTION, EndReason.CONTAINER_LOST, text, infrastructure=True)


def _killed(e: Evidence) -> End | None:
    """SIGKILL ended the program, and neither its memory limit nor the program itself explains it."""
    v = e.verdict
    if v is None or v.outcome != "failed" or v.reason not in (_KILLED_REASON, _NO_REASON):
        return None
    if v.reason == _NO_REASON and _SIGKILL not in (v.exit_code, _first_code(v)):
        return None
    text = _words(e) or "the program was ended by SIGKILL"
    return End(EndKind.INTERRUPTION, EndReason.KILLED, text, infrastructure=True, step=v.step)


def _launcher(e: Evidence) -> End | None:
    """The launcher's other verdicts: fenced, left on a signal, storage out of reach, or the program's failure."""
    v = e.verdict
    if v is None:
        return None
    if v.outcome == "fenced":
        text = v.message or "a newer attempt owns the checkpoints"
        return End(EndKind.INTERRUPTION, EndReason.FENCED, text, infrastructure=True)
    if v.outcome == "drained":
        return End(EndKind.INTERRUPTION, v.reason, v.message or "it was signalled to leave", step=v.step)
    if v.reason in STORAGE_BROKEN:
        return End(EndKind.INTERRUPTION, v.reason, _words(e), infrastructure=True, step=v.step)
    hang = v.hang if v.reason == EndReason.STALLED else None
    return End(EndKind.FAILURE, v.reason, _words(e), step=v.step, peer=v.peer, exit_code=_program_code(v), hang=hang)


def _exit_code(e: Evidence) -> End:
    """There is no verdict: the exit code decides, which is reliable only for a program without torchrun."""
    c = e.container
    if c is None or not c.ended:
        text = _cap(e.pod.message or _injected_words(e.pod))
        return End(EndKind.INTERRUPTION, e.pod.reason or EndReason.POD_FAILED, text, infrastructure=True)
    if c.exit_code == 0:
        return End(EndKind.COMPLETED, EndReason.EXITED, "the program exited with 0")
    if c.exit_code in (_SIGKILL, _SIGTERM):
        return End(
            EndKind.INTERRUPTION, EndReason.KILLED, f"exit code {c.exit_code}: killed from outside", infrastructure=True
        )
    text = f"exit code {c.exit_code}: {_newest(c.message or c.reason)}"
    return End(EndKind.FAILURE, EndReason.EXIT_CODE, text, exit_code=c.exit_code)


# The first rule that answers decides; the last one always answers. docs/reference/decisions.md shows them.
RULES: tuple[Callable[[Evidence], End | None], ...] = (
    _complete,
    _misconfigured,
    _out_of_memory,
    _ordered_to_leave,
    _disrupted,
    _deleted,
    _kubelet,
    _not_begun,
    _python_incomplete,
    _container_lost,
    _killed,
    _launcher,
    _exit_code,
)


def _injected_words(pod: PodView) -> str:
    """Which container failed that Holdfast did not add, so that the trainer never ran; empty if none did."""
    failed = next((one for one in pod.init if not is_ours(one) and one.ended and one.exit_code != 0), None)
    if failed is None:
        return ""
    last = f": {_newest(failed.message)}" if failed.message else ""
    return f"init container {failed.name}, which Holdfast did not add, ended with exit code {failed.exit_code}{last}"


def _program_code(v: Verdict) -> int | None:
    """The exit code of the program; under torchrun, of the process that failed first."""
    if v.signal is not None:
        return 128 + v.signal
    return (_first_code(v) if v.exit_code == 1 else None) or v.exit_code


def _first_code(v: Verdict) -> int | None:
    """The exit code that torchrun names as the root cause."""
    found = FIRST_CODE.search("\n".join(v.last_lines))
    code = int(found[1]) if found else None
    return code if code is None or code >= 0 else 128 - code


def saved_last_step(pods: Iterable[PodView], told: Iterable[Verdict | None]) -> bool:
    """True if a program saved its last step before it left, as the launcher of one of `pods` says, or has `told`.

    A folder is saved on all nodes together, so one of them can speak for all.
    """
    ended = (pod.trainer for pod in pods if pod.trainer is not None and pod.trainer.ended)
    found = (*(parse_verdict(trainer.message) for trainer in ended), *told)
    return any(one is not None and (one.outcome, one.reason) == ("drained", reasons.SAVED_AND_LEFT) for one in found)


def _step(e: Evidence) -> int | None:
    return e.verdict.step if e.verdict else None


def _words(e: Evidence) -> str:
    """The verdict's message and the program's last lines, newest kept."""
    if e.verdict is None:
        return ""
    lines = "\n".join(e.verdict.last_lines)
    return _newest(f"{e.verdict.message}\n{lines}".strip())


def _newest(text: str) -> str:
    """The text, cut at the front: a program's last words say why it failed."""
    limit = MESSAGE_LIMIT - 32  # room for a few words before it
    return text if len(text) <= limit else "…" + text[-(limit - 1) :]


def _cap(text: str) -> str:
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"
