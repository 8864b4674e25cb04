"""One container of a pod: from its image and environment to a running process, its end, and its next start."""

import asyncio
import logging
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast_local.agent.api import ApiClient, Backoff
from holdfast_local.agent.config import AgentConfig, ImageSpec
from holdfast_local.agent.container import env, images, logs, procfs
from holdfast_local.agent.container.downward import PodFacts
from holdfast_local.agent.container.network import Network
from holdfast_local.agent.container.probes import Prober
from holdfast_local.agent.container.process import ContainerProcess, Reaper, Streams, agent_mark
from holdfast_local.agent.container.rewrite import PathMap
from holdfast_local.agent.container.volumes import Volumes
from holdfast_local.agent.errors import AgentError, ApiError, ApiUnreachableError
from holdfast_local.agent.quantity import read_quantity
from holdfast_local.agent.status import (
    FALLBACK_BYTES,
    FALLBACK_LINES,
    MESSAGE_BYTES,
    START_ERROR,
    ContainerState,
    Running,
    Terminated,
    Waiting,
    clip,
)

Object = dict[str, Any]

# A program in a container reads its token at a fixed path; a local process is told where it is.
ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ACCOUNT_VARIABLE = "HOLDFAST_LOCAL_SERVICE_ACCOUNT"

log = logging.getLogger(__name__)


@dataclass
class Machine:
    """What the containers of one node share: the way to the API server and the network are the node's."""

    config: AgentConfig
    api: ApiClient
    reaper: Reaper
    network: Network


def temporary_folder(config: AgentConfig, pod: Object) -> Path:
    """TMPDIR of a pod. Its path is short: programs open unix sockets in it, whose paths may have 107 bytes at most."""
    return config.root / "t" / str(pod["metadata"]["uid"]).replace("-", "")[:12]


@dataclass
class Sandbox:
    """What the containers of one pod share."""

    machine: Machine
    facts: PodFacts
    volumes: Volumes
    folder: Path
    changed: Callable[[], None]
    event: Callable[[str, str], None]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def pause(self, seconds: float) -> None:
        """Wait, at most until the pod is to end."""
        try:
            await asyncio.wait_for(self.stopping.wait(), seconds)
        except TimeoutError:
            return


@dataclass(frozen=True)
class _Launch:
    argv: list[str]
    env: dict[str, str]
    cwd: str
    paths: PathMap


class Container:
    """Runs one container until it has ended for good, or until the pod is to end."""

    def __init__(self, spec: Object, sandbox: Sandbox, waiting: Waiting) -> None:
        self.state = ContainerState(spec, waiting)
        self.process: ContainerProcess | None = None
        self.log: logs.ContainerLog | None = None
        self.memory_limit = _memory_limit(spec)
        self._sandbox = sandbox
        self._config = sandbox.machine.config
        self._id = ""
        self._launched: _Launch | None = None

    @property
    def log_path(self) -> Path:
        """The log of the instance that runs or ran last."""
        return self._sandbox.folder / f"{self.state.name}.log"

    @property
    def previous_log_path(self) -> Path:
        """The log of the instance before."""
        return self._sandbox.folder / f"{self.state.name}.previous.log"

    @property
    def _message_file(self) -> Path:
        return self._sandbox.folder / "messages" / f"{self.state.name}.{self.state.restarts}"

    async def run(self, policy: str) -> None:
        """Start, and start again as the restart policy says. Returns when it will not run again."""
        timings = self._config.timings
        backoff = Backoff(timings.restart_backoff, timings.restart_backoff_max)
        while not self._sandbox.stopping.is_set():
            ended = await self._run_once()
            if ended is None:
                return
            again = policy == "Always" or (policy == "OnFailure" and ended.exit_code != 0)
            if not again or self._sandbox.stopping.is_set():
                return
            self.state.last = ended
            words = f"back-off restarting failed container={self.state.name}"
            self._set(Waiting("CrashLoopBackOff", words))
            await self._sandbox.pause(backoff.take())
            self.state.restarts += 1

    async def _run_once(self) -> Terminated | None:
        image = await self._image()
        launch = await self._launch(image) if image is not None else None
        if launch is None or self._sandbox.stopping.is_set():
            return None
        started = datetime.now(UTC)
        self._id = uuid.uuid4().hex
        self.state.container_id = f"holdfast://{self._id}"
        mark = f"{agent_mark(self._config.root)}.{self._id}"
        self.process = ContainerProcess(self._sandbox.machine.reaper, mark)
        try:
            self._start(launch, self.process)
        except (OSError, AgentError, ValueError) as err:
            return self._cannot_start(launch, err)
        prober = self._prober(launch, mark)
        self.state.ready = prober is None
        self._set(Running(started))
        probing = asyncio.create_task(prober.run(self._set_ready)) if prober is not None else None
        try:
            code = await self.process.wait()
        finally:
            if probing is not None:
                probing.cancel()
        return self._ended(code, started)

    def enter(self, command: list[str], streams: Streams) -> asyncio.Future[int]:
        """Start a command beside the program, as the program was started; its exit code.

        Raises AgentError, in the words of a container runtime, if no program runs or the command cannot be started.
        """
        launch, process = self._launched, self.process
        if launch is None or process is None or not process.running:
            raise AgentError(f"container {self.state.name} is not running")
        argv = [launch.paths.rewrite(text) for text in command]
        terminal = {"TERM": "xterm"} if streams.terminal else {}
        try:
            with self._sandbox.machine.network.entered():
                return process.enter(argv, terminal | launch.env, launch.cwd, streams)
        except (OSError, ValueError) as err:
            raise AgentError(f"unable to start container process: {_why_not(argv[0], err)}") from err

    def _start(self, launch: _Launch, process: ContainerProcess) -> None:
        if not launch.argv:
            raise AgentError("no command specified: this image of the local cluster has none, give command or args")
        output = self._open_log().feed
        with self._sandbox.machine.network.entered():
            process.start(launch.argv, launch.env, launch.cwd, output)
        self._launched = launch

    async def _image(self) -> ImageSpec | None:
        name = str(self.state.spec.get("image", ""))
        if not images.is_valid(name):
            message = images.invalid_message(name)
            self._fail("InvalidImageName", message, "InspectFailed")
            await self._sandbox.stopping.wait()
            return None
        found = images.find(name, self._config.images)
        if found is not None:
            return found
        if self.state.spec.get("imagePullPolicy") == "Never":
            self._fail("ErrImageNeverPull", f'Container image "{name}" is not present with pull policy of Never')
        else:
            message = images.pull_message(name, self._config.images)
            self._fail("ErrImagePull", message)
            await self._sandbox.pause(self._config.timings.image_backoff)
            # The known images never change while the agent runs, so the next try is the last word.
            if not self._sandbox.stopping.is_set():
                words = f'Back-off pulling image "{name}": ErrImagePull: {message}'
                self._fail("ImagePullBackOff", words, "BackOff")
        await self._sandbox.stopping.wait()
        return None

    async def _launch(self, image: ImageSpec) -> _Launch | None:
        backoff = Backoff(0.5, 10.0)
        while not self._sandbox.stopping.is_set():
            try:
                return await self._prepare(image)
            except ApiUnreachableError as err:
                log.warning("%s", err)
            except AgentError as err:
                words = err.message if isinstance(err, ApiError) else str(err)
                self._fail("CreateContainerConfigError", words)
            await self._sandbox.pause(backoff.take())
        return None

    async def _prepare(self, image: ImageSpec) -> _Launch:
        spec, facts = self.state.spec, self._sandbox.facts
        sources = env.Sources(self._sandbox.machine.api, facts.pod["metadata"]["namespace"])
        wanted = await env.build(spec, facts, sources, image.env)
        mounts = self._sandbox.volumes.mounts(spec, wanted.resolve())
        self._message_file.parent.mkdir(exist_ok=True)
        self._message_file.write_bytes(b"")
        mounts[spec.get("terminationMessagePath") or "/dev/termination-log"] = str(self._message_file)
        paths = PathMap(mounts)
        values = wanted.resolve(paths.rewrite)
        program, arguments = (
            [env.expand(paths.rewrite(text), values) for text in spec.get(field) or []] for field in ("command", "args")
        )
        argv = [*(program or image.entrypoint), *arguments]
        account = mounts.get(ACCOUNT_PATH)
        ours = self._base_env(image) | ({ACCOUNT_VARIABLE: account} if account else {})
        return _Launch(argv, ours | values, self._cwd(paths), paths)

    def _base_env(self, image: ImageSpec) -> dict[str, str]:
        home = self._sandbox.folder / "home"
        temporary = temporary_folder(self._config, self._sandbox.facts.pod)
        for folder in (home, temporary):
            folder.mkdir(parents=True, exist_ok=True)
        host, _, port = self._config.server.removeprefix("https://").rpartition(":")
        return {
            "PATH": ":".join([*image.path, env.BASE_PATH]),
            "HOME": str(home),
            "TMPDIR": str(temporary),
            "LANG": "C.UTF-8",
            "HOSTNAME": str(self._sandbox.facts.pod["metadata"]["name"]),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            **self._sandbox.machine.network.environment,
        }

    def _cwd(self, paths: PathMap) -> str:
        wanted = self.state.spec.get("workingDir")
        if not wanted:
            return str(self._sandbox.folder / "home")
        real = Path(paths.rewrite(wanted))
        if not real.is_dir():
            # A runtime makes a missing working directory inside the container; here it is made inside the pod's folder.
            if not real.is_relative_to(self._sandbox.folder):
                real = self._sandbox.folder / "root" / str(wanted).lstrip("/")
            real.mkdir(parents=True, exist_ok=True)
        return str(real)

    def _open_log(self) -> logs.ContainerLog:
        if self.log_path.exists():
            self.log_path.replace(self.previous_log_path)
            logs.rotated(self.log_path).unlink(missing_ok=True)
        self.log = logs.ContainerLog(self.log_path)
        return self.log

    def _prober(self, launch: _Launch, mark: str) -> Prober | None:
        probe = self.state.spec.get("readinessProbe")
        if probe is None:
            return None
        environment = {**launch.env, procfs.MARK: mark}
        ports = self.state.spec.get("ports") or []
        machine, address = self._sandbox.machine, self._sandbox.facts.pod_ip
        return Prober(probe, (machine.reaper, machine.network), address, ports, (environment, launch.cwd))

    def _cannot_start(self, launch: _Launch, err: Exception) -> Terminated:
        why = _why_not(launch.argv[0] if launch.argv else "", err)
        message = f"failed to create containerd task: runc create failed: unable to start container process: {why}"
        self._sandbox.event("Failed", f"Error: {message}")
        if self.log is not None:
            self.log.close()
        self.process = None
        now = datetime.now(UTC)
        ended = Terminated(128, START_ERROR, message, datetime.fromtimestamp(0, UTC), now, self.state.container_id)
        self._set(ended)
        return ended

    def _ended(self, code: int, started: datetime) -> Terminated:
        if self.log is not None:
            self.log.close()
        killed = self.process is not None and self.process.out_of_memory
        reason = "OOMKilled" if killed else "Completed" if code == 0 else "Error"
        code = 137 if killed else code
        ended = Terminated(code, reason, self._message(code), started, datetime.now(UTC), self.state.container_id)
        self.state.ready = False
        self._set(ended)
        return ended

    def _message(self, code: int) -> str:
        try:
            with self._message_file.open("rb") as file:
                message = clip(file.read(MESSAGE_BYTES), MESSAGE_BYTES)
        except OSError as err:
            message = f"Error on reading termination log {self._message_file}: {err}"
        if message or code == 0 or self.state.spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return message
        return logs.tail_text(self.log_path, lines=FALLBACK_LINES, size=FALLBACK_BYTES)

    def _fail(self, reason: str, message: str, event: str = "Failed") -> None:
        self._set(Waiting(reason, message))
        self._sandbox.event(event, f"Error: {message}")

    def _set_ready(self, ready: bool) -> None:
        if self.state.ready != ready and isinstance(self.state.state, Running):
            self.state.ready = ready
            self._sandbox.changed()

    def _set(self, state: Waiting | Running | Terminated) -> None:
        if self.state.state != state:
            self.state.state = state
            self._sandbox.changed()


def _why_not(program: str, err: Exception) -> str:
    """Why a program cannot be started, in the words of a container runtime."""
    if isinstance(err, FileNotFoundError):
        missing = f"stat {program}: no such file or directory"
        return f'exec: "{program}": {missing if "/" in program else "executable file not found in $PATH"}'
    return f'exec: "{program}": permission denied' if isinstance(err, PermissionError) else str(err)


def _memory_limit(spec: Object) -> int | None:
    limit = ((spec.get("resources") or {}).get("limits") or {}).get("memory")
    return int(read_quantity(limit)) if limit is not None else None


def measure(containers: list[Container]) -> list[Container]:
    """The containers whose processes use more memory than their limit.

    Resident memory is read first, for it is cheap and never too small; only above the limit the exact charge is read.
    """
    if not containers:
        return []
    processes = procfs.table()
    own = os.getpid()
    over = []
    for container in containers:
        process, limit = container.process, container.memory_limit
        if process is None or limit is None or not process.running:
            continue
        members = process.members(processes) - {own}
        if sum(processes[pid].rss for pid in members) <= limit:
            continue
        charges = [procfs.charged(pid) for pid in members]
        total = sum(
            processes[pid].rss if charge is None else charge for pid, charge in zip(members, charges, strict=True)
        )
        if total > limit:
            over.append(container)
    return over
