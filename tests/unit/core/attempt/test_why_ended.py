"""Why an attempt ended: every reason of a cluster, a kubelet and a launcher, and the kind that it counts as."""

from dataclasses import replace

import pytest
from tests.support.decisions.snapshots import container, drain, ended, pod, stopped, verdict

from holdfast.api.attempt import EndKind
from holdfast.core.attempt.why_ended import MESSAGE_LIMIT, RULES, Evidence, classify
from holdfast.core.observe.verdict import parse_verdict

COMPLETED, INTERRUPTION, FAILURE = EndKind.COMPLETED, EndKind.INTERRUPTION, EndKind.FAILURE
MISCONFIGURED, STOPPED = EndKind.MISCONFIGURED, EndKind.STOPPED
FAILED = verdict("failed", "UserException", message="ValueError: no", lastLines=["a", "b"])
DRAINED = verdict("drained", "SavedAndLeft", step=41)
DONE = verdict("completed", "Exited", step=100)
OOM = replace(container(ended=True, exit_code=137), reason="OOMKilled")
DISK_LOW = (
    "The node was low on resource: ephemeral-storage. Threshold quantity: 9Gi, available: 8Gi. Container trainer was "
    "using 25Gi, request is 0, has larger consumption of ephemeral-storage. "
)
NODE_LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 10Mi."


RUNC = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process:"


def unbegun(message: str):
    """A pod whose container runtime failed to start the trainer."""
    return ended(1, 128, trainer=replace(container(ended=True, exit_code=128, message=message), reason="StartError"))


def rejected(reason: str, message: str = ""):
    """A pod that a kubelet rejected."""
    return pod(phase="Failed", trainer=None, reason=reason, message=message)


def ours(**state):
    """The init container that Holdfast adds."""
    return container(name="holdfast-init", **state)


def sidecar(**state):
    """A native sidecar that a mesh injected: an init container that runs beside the trainer."""
    return container(name="istio-proxy", **state)


def lost(reason: str, code: int = 255):
    """The trainer container, with an end that the kubelet did not see."""
    return replace(container(ended=True, exit_code=code), reason=reason)


LAUNCHER_TRACE = (
    'Traceback (most recent call last):\n  File "/usr/lib/python3.8/runpy.py", line 87, in _run_code\n'
    '  File "/holdfast/bin/holdfast-run/__main__.py", line 3, in <module>\n'
)
RANK_KILLED = ["Root Cause (first observed failure):", "[0]:", "  exitcode  : -9 (pid: 7)", "  traceback : Signal 9"]

CASES = [
    # the launcher says that training is complete: nothing outweighs it
    ("own accord", ended(0, 0, DONE), None, COMPLETED, "Exited"),
    ("complete after an order to leave", ended(1, 0, DONE), drain(), COMPLETED, "Exited"),
    ("complete while being evicted", ended(1, 0, DONE, disruption="EvictionByEvictionAPI"), None, COMPLETED, "Exited"),
    ("complete in the log", ended(1, 0, verdict("completed", "AlreadyComplete")), None, COMPLETED, "AlreadyComplete"),
    # misconfiguration
    ("wrong key", ended(1, 1, verdict("misconfigured", "StorageDenied")), None, MISCONFIGURED, "StorageDenied"),
    ("no bucket", ended(1, 1, verdict("misconfigured", "StorageNotFound")), drain(), MISCONFIGURED, "StorageNotFound"),
    ("no command", ended(1, 127, verdict("misconfigured", "CommandNotFound")), None, MISCONFIGURED, "CommandNotFound"),
    (
        "in the init container",
        pod(phase="Failed", trainer=container(waiting="PodInitializing"), init=(
            ours(ended=True, exit_code=1, message=verdict("misconfigured", "StoragePrefixInUse")),
        )),
        None, MISCONFIGURED, "StoragePrefixInUse",
    ),
    # storage out of reach is not the user's fault; the init container or the launcher may report it
    ("S3 down at start", ended(1, 1, verdict("misconfigured", "StorageUnreachable")), None,
     INTERRUPTION, "StorageUnreachable"),
    ("S3 down at a save", ended(1, 1, verdict("failed", "StorageUnreachable")), None,
     INTERRUPTION, "StorageUnreachable"),
    # memory
    ("memory limit", ended(1, 137, trainer=OOM), None, FAILURE, "OutOfMemory"),
    ("memory limit while leaving", ended(1, 137, trainer=OOM), drain(), INTERRUPTION, "SpotInterruption"),
    ("memory limit outweighs an eviction", ended(1, 137, trainer=OOM, disruption="TerminationByKubelet"), None, FAILURE,
     "OutOfMemory"),
    ("the node was low on memory", rejected("Evicted", NODE_LOW), None, INTERRUPTION, "Evicted"),
    ("the node was low on disk", rejected("Evicted", DISK_LOW), None, INTERRUPTION, "Evicted"),
    ("evicted for scratch", rejected("Evicted", "Pod ephemeral local storage usage exceeds the total limit of "
     "containers 1Gi. "), None, FAILURE, "Evicted"),
    ("evicted for its scratch", rejected("Evicted", 'Container trainer exceeded its local ephemeral storage limit '
     '"1Gi". '), None, FAILURE, "Evicted"),
    ("evicted for an emptyDir", rejected("Evicted", 'Usage of EmptyDir volume "x" exceeds the limit "1Gi".'), None,
     FAILURE, "Evicted"),
    ("evicted for process ids", rejected("Evicted", "The node was low on resource: pids."), None,
     INTERRUPTION, "Evicted"),
    ("refused by a node under pressure", rejected("Evicted", "The node had condition: [MemoryPressure]. "), None,
     INTERRUPTION,
     "Evicted"),
    # the container runtime could not begin it
    ("no such command", unbegun(f'{RUNC} exec: "python3": executable file not found in $PATH: unknown'), None,
     MISCONFIGURED, "CommandNotFound"),
    ("no such path", unbegun(f'{RUNC} exec: "/x": stat /x: no such file or directory: unknown'), None, MISCONFIGURED,
     "CommandNotFound"),
    ("no GPU on the node", unbegun(f"{RUNC} running hook #0: nvidia-container-cli: libnvidia-ml.so.1: cannot open: "
     "no such file or directory"), None, INTERRUPTION, "StartError"),
    ("no GPU runtime on the node", unbegun(f'{RUNC} exec: "nvidia-container-runtime": executable file not found'), None,
     INTERRUPTION, "StartError"),
    # Holdfast ordered it to leave: that is the reason, with any exit code
    ("left on our word", ended(1, 0, DRAINED), drain(), INTERRUPTION, "SpotInterruption"),
    ("left without a verdict", ended(1, 0), drain(), INTERRUPTION, "SpotInterruption"),
    ("failed while leaving", ended(1, 1, FAILED), drain(), INTERRUPTION, "SpotInterruption"),
    ("killed while leaving", ended(1, 137), drain(), INTERRUPTION, "SpotInterruption"),
    ("suspended", ended(1, 0, DRAINED), stopped(), STOPPED, "Suspended"),
    ("suspended and collected", ended(1, 0, DRAINED, disruption="DeletionByPodGC"), stopped(), STOPPED, "Suspended"),
    # the cluster took it
    *(
        (f"disrupted: {reason}", ended(1, 0, disruption=reason), None, INTERRUPTION, reason)
        for reason in ("PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC",
                       "TerminationByKubelet")
    ),
    ("disrupted, exit 1 of torchrun", ended(1, 1, FAILED, disruption="PreemptionByScheduler"), None, INTERRUPTION,
     "PreemptionByScheduler"),
    # somebody deleted it
    ("deleted, exit 0", ended(1, 0, deleted_at=drain().at), None, INTERRUPTION, "PodDeleted"),
    ("deleted, exit 143", ended(1, 143, deleted_at=drain().at), None, INTERRUPTION, "PodDeleted"),
    ("deleted, drained", ended(1, 0, DRAINED, deleted_at=drain().at), None, INTERRUPTION, "PodDeleted"),
    # the kubelet would not or could not keep it
    *(
        (f"kubelet: {reason}", rejected(reason), None, INTERRUPTION, reason)
        for reason in ("Terminated", "Shutdown", "NodeShutdown", "NodeLost", "NodeAffinity", "UnexpectedAdmissionError",
                       "Preempting", "TopologyAffinityError", "OutOfcpu", "OutOfmemory", "OutOfpods",
                       "OutOfnvidia.com/gpu")
    ),
    # the launcher's word
    ("torchrun exits 1, exception", ended(1, 1, FAILED), None, FAILURE, "UserException"),
    ("a training that hung", ended(1, 137, verdict("failed", "Stalled", signal=9)), None, FAILURE, "Stalled"),
    ("drained without our knowing", ended(1, 0, DRAINED), None, INTERRUPTION, "SavedAndLeft"),
    ("drained, torchrun exits 1", ended(1, 1, DRAINED), None, INTERRUPTION, "SavedAndLeft"),
    ("fenced", ended(1, 1, verdict("fenced", "Fenced")), None, INTERRUPTION, "Fenced"),
    ("signal of its own", ended(1, 139, verdict("failed", "Signal11", signal=11)), None, FAILURE, "Signal11"),
    # the image cannot run the launcher
    ("python3 without its codecs", ended(1, 1, "Fatal Python error: init_fs_encoding: failed to get the Python codec\n"
     "ModuleNotFoundError: No module named 'encodings'"), None, MISCONFIGURED, "PythonIncomplete"),
    ("python3 without runpy", ended(1, 1, "Could not import runpy module\nModuleNotFoundError: No module named 'runpy'"
     ), None, MISCONFIGURED, "PythonIncomplete"),
    ("python3 without a module", ended(1, 1, LAUNCHER_TRACE + "ModuleNotFoundError: No module named 'fcntl'"), None,
     MISCONFIGURED, "PythonIncomplete"),
    ("python3 that is too old", ended(1, 1, LAUNCHER_TRACE + "SyntaxError: future feature annotations is not defined"),
     None, MISCONFIGURED, "PythonIncomplete"),
    ("a module that the program lacks", ended(1, 1, verdict("failed", "UserException", exitCode=1,
     lastLines=["ModuleNotFoundError: No module named 'torch'"])), None, FAILURE, "UserException"),
    # the node lost the container: what containerd reports after a reboot, and when the container's shim was killed
    ("the node restarted", ended(1, 255, trainer=lost("Unknown")), None, INTERRUPTION, "ContainerLost"),
    ("the shim died", ended(1, 255, trainer=lost("Error")), None, INTERRUPTION, "ContainerLost"),
    ("the kubelet did not find it", ended(1, 137, trainer=lost("ContainerStatusUnknown", 137)), None, INTERRUPTION,
     "ContainerLost"),
    ("the init container was lost", pod(phase="Failed", trainer=container(waiting="PodInitializing"),
     init=(replace(ours(ended=True, exit_code=255), reason="Unknown"),)), None, INTERRUPTION, "ContainerLost"),
    ("the node restarted after an order to leave", ended(1, 255, trainer=lost("Unknown")), drain(), INTERRUPTION,
     "SpotInterruption"),
    ("255 of the program", ended(1, 255, verdict("failed", "UserException", exitCode=255)), None, FAILURE,
     "UserException"),
    # SIGKILL from outside the program
    ("SIGKILL", ended(1, 137, verdict("failed", "Signal9", signal=9)), None, INTERRUPTION, "Killed"),
    ("SIGKILL behind a shell", ended(1, 137, verdict("failed", "UserException", exitCode=137)), None,
     INTERRUPTION, "Killed"),
    ("SIGKILL of a rank", ended(1, 1, verdict("failed", "UserException", exitCode=1, lastLines=RANK_KILLED)), None,
     INTERRUPTION, "Killed"),
    ("a rank raises, and others are killed", ended(1, 1, verdict("failed", "UserException", exitCode=1,
     lastLines=[line.replace("-9", "1") for line in RANK_KILLED] + RANK_KILLED[1:])), None, FAILURE,
     "UserException"),
    ("SIGKILL at the memory limit", ended(1, 137, verdict("failed", "Signal9", signal=9), trainer=OOM), None, FAILURE,
     "OutOfMemory"),
    ("SIGKILL, and the program says that memory ran out", ended(1, 137, verdict("failed", "OutOfMemory", signal=9)),
     None, FAILURE, "OutOfMemory"),
    # the exit code
    ("exit 0", ended(1, 0), None, COMPLETED, "Exited"),
    ("exit 1", ended(1, 1, "Traceback: no"), None, FAILURE, "ExitCode"),
    ("SIGKILL from outside", ended(1, 137), None, INTERRUPTION, "Killed"),
    ("SIGTERM from outside", ended(1, 143), None, INTERRUPTION, "Killed"),
    ("no word of the trainer", pod(phase="Failed", trainer=None), None, INTERRUPTION, "PodFailed"),
    ("never ran", pod(phase="Failed", trainer=container(waiting="ContainerCreating")), None, INTERRUPTION, "PodFailed"),
    ("init container failed without a word",
     pod(phase="Failed", init=(ours(ended=True, exit_code=3),), trainer=container(waiting="PodInitializing")),
     None, FAILURE, "ExitCode"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "told", "kind", "reason"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_every_end(seen, told, kind, reason):
    end = classify(seen, told)
    assert (end.kind, end.reason) == (kind, reason)


@pytest.mark.parametrize(
    "injected",
    [sidecar(running=True), *(sidecar(ended=True, exit_code=code) for code in (0, 1, 137, 143))],
    ids=["running", "0", "1", "137", "143"],
)
@pytest.mark.parametrize(
    ("code", "message", "kind", "reason"),
    [(0, DONE, COMPLETED, "Exited"), (1, FAILED, FAILURE, "UserException"), (0, "", COMPLETED, "Exited"),
     (1, verdict("misconfigured", "StorageDenied"), MISCONFIGURED, "StorageDenied")],
)  # fmt: skip
def test_an_injected_sidecar_never_decides_how_the_trainer_ended(injected, code, message, kind, reason):
    end = classify(ended(1, code, message, init=(injected, ours(ended=True))), None)
    assert (end.kind, end.reason) == (kind, reason)


def test_an_injected_init_container_that_failed_is_an_interruption_that_names_it():
    failed = container(name="istio-init", ended=True, exit_code=1, message="iptables: no")
    end = classify(pod(phase="Failed", init=(failed,), trainer=container(waiting="PodInitializing")), None)
    assert (end.kind, end.reason, end.infrastructure) == (INTERRUPTION, "PodFailed", True)
    assert end.message == "init container istio-init, which Holdfast did not add, ended with exit code 1: iptables: no"


def test_every_rule_answers_for_some_case():
    """A rule that no case reaches would be dead, or hidden by an earlier one."""
    first = set()
    for _, seen, told, *_ in CASES:
        evidence = Evidence.collect(seen, told)
        first.add(next(rule.__name__ for rule in RULES if rule(evidence)))
    assert first == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize("reason", ["OutOfcpu", "NodeLost", "Evicted"])
def test_what_the_platform_broke_is_infrastructure(reason):
    assert classify(rejected(reason), None).infrastructure


def test_a_notice_is_not_infrastructure():
    assert not classify(ended(1, 0, DRAINED), drain()).infrastructure


def test_the_verdicts_step_is_kept():
    assert classify(ended(1, 0, DRAINED), drain()).step == 41


def test_the_last_lines_of_a_failure_are_kept():
    assert classify(ended(1, 1, FAILED), None).message == "ValueError: no\na\nb"


@pytest.mark.parametrize("where", ["verdict", "log"])
def test_a_long_message_keeps_its_end(where):
    """The exception is in the last line of a traceback: cutting there would hide it."""
    text = "x" * 3000 + " the end"
    message = verdict("failed", "UserException", message=text) if where == "verdict" else text
    end = classify(ended(1, 1, message), None)
    assert end.message.endswith("the end")
    assert len(end.message) <= MESSAGE_LIMIT


HOSTILE = [
    "",
    "{",
    "[]",
    "null",
    '{"v":1}',
    '{"v":2,"outcome":"completed","reason":"Exited"}',
    '{"v":1,"outcome":"done","reason":"Exited"}',
    '{"v":1,"outcome":"completed","reason":"two words"}',
    '{"v":1,"outcome":"completed","reason":"' + "A" * 65 + '"}',
    '{"v":1,"outcome":"completed","reason":"Exited","step":-1}',
    '{"v":1,"outcome":"completed","reason":"Exited","step":1' + "0" * 30 + "}",
    '{"v":1,"outcome":"completed","reason":"Exited","step":1.5}',
    '{"v":1,"outcome":"completed","reason":"Exited","step":NaN}',
    '{"v":1,"outcome":"completed","reason":"Exited","message":"\\ud800"}',
    '{"v":1,"outcome":"completed","reason":"Exited","message":"' + "x" * 5000 + '"}',
    '{"v":1,"outcome":"completed","lastLines":' + "[" * 3000 + "]" * 1000 + "}",
    '{"v":1,"outcome":"completed","reason":"Exited"}\nand then the program wrote more',
]


@pytest.mark.parametrize("message", HOSTILE, ids=range(len(HOSTILE)))
def test_a_termination_message_of_another_form_is_not_a_verdict(message):
    assert parse_verdict(message) is None
    assert classify(ended(1, 1, message), None).reason == "ExitCode"


def test_a_verdict_after_other_output_counts():
    found = parse_verdict("epoch 1\nepoch 2\n" + DONE + "\n")
    assert found is not None
    assert found.outcome == "completed"


def test_a_verdict_of_a_newer_launcher_is_read():
    found = parse_verdict('{"v":1,"outcome":"drained","reason":"SavedAndLeft","savedStep":7,"colour":"green"}')
    assert found is not None
    assert found.saved_step == 7


ROOT_42 = ["Root Cause (first observed failure):", "[0]:", "  exitcode  : 42 (pid: 7)", "  error_file: <N/A>"]
ROOT_STARTED = ["ValueError: no data", "Root Cause: a process that it started, exitcode: 42"]  # as our launcher says it
ROOT_SIGNAL = ["Root Cause (first observed failure):", "[0]:", "  exitcode  : -11 (pid: 7)"]


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (ended(1, 3, verdict("failed", "UserException", exitCode=3)), 3),
        (ended(1, 1, verdict("failed", "UserException", exitCode=1, lastLines=ROOT_42)), 42),
        (ended(1, 1, verdict("failed", "UserException", exitCode=1, lastLines=ROOT_STARTED)), 42),
        (ended(1, 1, verdict("failed", "UserException", exitCode=1, lastLines=ROOT_SIGNAL)), 139),
        (ended(1, 5, verdict("failed", "UserException", exitCode=5, lastLines=ROOT_42)), 5),
        (ended(1, 139, verdict("failed", "Signal11", signal=11)), 139),
        (ended(1, 137, trainer=OOM), 137),
        (ended(1, 9), 9),
    ],
)
def test_the_exit_code_is_that_of_the_program(seen, code):
    """Breaks if a rule of the user about exit codes sees only the 1 of torchrun."""
    assert classify(seen, None).exit_code == code
