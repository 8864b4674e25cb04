"""`Client`: trainings of one namespace, for a program or a notebook."""

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from holdfast_cli.client.calling import call, call_blocking
from holdfast_cli.client.function import command_of_function
from holdfast_cli.client.job import Job, named
from holdfast_cli.client.log_lines import SILENT, Say
from holdfast_cli.client.waiting import phases
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.jobs.watched import is_in
from holdfast_cli.run.local_cluster import bring_up
from holdfast_cli.run.plan import default_name
from holdfast_cli.run.sources import known, storage_from
from holdfast_cli.run.submit import Again
from holdfast_cli.run.training import begin
from holdfast_cli.run.wanted import Wanted, layered
from holdfast_cli.storage.address import Where
from holdfast_cli.terminal.console import plain_console

Jobs = list[Job]
Word = str | int | float | PathLike[str]
_HERE: Final = "Client.run"


class Client:
    """Trainings of one namespace of a cluster.

    `namespace`: that of the current context if it is None. `kubeconfig`: a file, otherwise as kubectl finds it, or the
    service account of a pod. `endpoint`: the address under which the S3 server of checkpoints is reached from here, if
    that is not the one of the pods. `local`: the local cluster of this machine, as of `holdfast local up`; it is
    started if it is not up, which takes minutes if its tools are not built yet.

    All calls block, nothing is printed but the bar of `Job.wait`, and each call can be made from any thread and in a
    notebook. What a call cannot do it raises as a `HoldfastError`.
    """

    def __init__(
        self,
        namespace: str | None = None,
        kubeconfig: str | PathLike[str] | None = None,
        *,
        endpoint: str | None = None,
        local: bool = False,
    ) -> None:
        if local and kubeconfig is not None:
            raise CliError("kubeconfig and local=True name two clusters", code=ExitCode.USAGE, hint="give one of them")
        chosen = call_blocking(lambda: bring_up(SILENT)) if local else kubeconfig
        file = None if chosen is None else Path(chosen).expanduser()
        self._target = Target(file, Target(file, namespace).resolved_namespace())
        self._where = Where("", self._target.namespace, file, endpoint)

    def __repr__(self) -> str:
        return f"Client(namespace={self.namespace!r})"

    @property
    def namespace(self) -> str:
        """The namespace of its jobs."""
        assert self._target.namespace is not None
        return self._target.namespace

    def run(
        self,
        *command: Word | Callable[..., Any],
        dir: str | PathLike[str] = ".",  # noqa: A002 - the name of the option of `holdfast run`
        again: str | None = None,
        say: Say | None = None,
        **wanted: Any,
    ) -> Job:
        """Send the folder `dir`, and train its program in the cluster: what `holdfast run` does.

        `command` is the program and its arguments; "train.py" means python3 train.py. It can also be a function
        with its arguments, which are texts and numbers. A function of a module in `dir` is imported in the pod.
        One of a notebook is sent as its source, with the functions of the notebook that it uses, and the imports of
        what they use. `again` says what happens to a job of the same name: "continue" goes on with its training,
        "new" deletes it and begins a new one. `say` is called with each line about what is sent. The other
        arguments are named as in a holdfast.toml: `name`, `image`, `profile`, `nodes`, `gpus`, `cpu`, `memory`,
        `deadline`, `budget`, `every`, `steps`, `folder`, `storage`, `env`, `secrets`, `data`, `progress`, `exclude`,
        `deps`, `python`, `platform` and `provided`. `storage` may also be s3://BUCKET/PREFIX.
        """
        said, folder = wanted_of(wanted), Path(dir).expanduser()
        if not folder.is_dir():
            raise CliError(
                f"{folder} is not a folder", code=ExitCode.NOT_FOUND, hint="dir is the folder of the program"
            )
        if command and callable(command[0]):
            words = command_of_function(command[0], command[1:], folder)
            said = layered(said, Wanted(name=default_name([f"{command[0].__name__}.py"])))
        else:
            words = command_of(command)
        decided = None if again is None else again_of(again)

        def decide(name: str) -> Again:
            if decided is None:
                hint = 'give again="continue", again="new", or another name'
                raise CliError(f"a job {name} exists", code=ExitCode.USAGE, hint=hint)
            return decided

        told, endpoint = plain_console(_Lines(say or SILENT)), self._where.endpoint
        begun = call_blocking(
            lambda: begin(self._target, folder, said, words, told, again=decide, endpoint=endpoint),
        )
        return self.get(begun.planned.name)

    def get(self, name: str) -> Job:
        """The job with this name. Raises `HoldfastError` if there is none."""

        async def work() -> Job:
            async with connect(self._target) as client:
                return named(self._where, name, await job_api.find_job(client, self.namespace, name))

        return call(work)

    def list(self, phase: str | None = None, all_namespaces: bool = False) -> Jobs:
        """All jobs, or those in one phase, by namespace and name."""
        wanted = () if phase is None else phases(phase)

        async def work() -> Jobs:
            async with connect(self._target) as client:
                found = await job_api.list_raw(client, None if all_namespaces else self.namespace)
                return [self._job(raw["metadata"]) for raw in found if is_in(raw, wanted)]

        return call(work)

    def _job(self, meta: dict[str, Any]) -> Job:
        return Job(replace(self._where, place=meta["name"], namespace=meta["namespace"]), meta["uid"])


class _Lines(io.StringIO):
    """A stream that gives each line to a function."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._say(line.rstrip())
        return len(text)


def command_of(words: Sequence[Any]) -> list[str]:
    """The command as texts; a program of Python alone gets its interpreter. Raises CliError."""
    command = [
        word if isinstance(word, str) else str(word) if isinstance(word, int | float) else fspath(word)
        for word in words
    ]
    if not command:
        raise CliError(f'name the program and its arguments, such as {_HERE}("train.py")', code=ExitCode.USAGE)
    return ["python3", *command] if command[0].endswith(".py") else command


def wanted_of(given: dict[str, Any]) -> Wanted:
    """What the arguments say. Raises CliError."""
    said = {name: value for name, value in given.items() if value is not None}
    if isinstance(said.get("storage"), str):
        said["storage"] = storage_from(said["storage"], None, None)
    return known(said, _HERE)


def again_of(text: str) -> Again:
    """What happens to a job of the same name. Raises CliError unless it is one of the allowed words."""
    try:
        return Again(text)
    except ValueError as error:
        raise CliError(f"again: {text!r}; allowed: {', '.join(Again)}", code=ExitCode.USAGE) from error
