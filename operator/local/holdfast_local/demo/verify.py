"""Check the demo's claims: the attempts in the job's status against the commit log in the bucket. Pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast_cli.terminal import formats
from holdfast_local.demo.script import Script
from holdfast_local.demo.stories import Blow
from holdfast_train.commitlog.records import Record


@dataclass(frozen=True, slots=True)
class Check:
    """One claim, and whether it is true."""

    passed: bool
    text: str


def saved_before(records: Iterable[Record]) -> dict[int, int | None]:
    """Attempt -> the step of the newest commit at the moment of its fence; None if there was none."""
    newest: int | None = None
    found: dict[int, int | None] = {}
    for record in records:
        if record.commit is not None:
            newest = record.commit.step
        elif record.kind == "fence":
            found[record.identity.attempt] = newest
    return found


def resumes(job: TrainingJob) -> list[tuple[int, int]]:
    """(attempt, step) of every resume."""
    return [(r.number, r.resumed_step) for r in job.status.history if r.resumed_step is not None]


def checks(job: TrainingJob, records: Sequence[Record], script: Script, pods: Collection[str] = ()) -> list[Check]:
    """Every claim of the demo, checked. `pods`: the names of all pods at the end."""
    phase = job.status.phase
    done = phase is Phase.COMPLETED
    result = [Check(done, f"the job is {phase or 'new'} at step {formats.count(job.status.progress.step)}")]
    struck, scenes = len(script.played), len(script.scenes)
    result.append(Check(struck == scenes, f"{struck} of {scenes} nodes were taken from it"))
    resumed, fenced = dict(resumes(job)), saved_before(records)
    trained = [number for number, saved in sorted(fenced.items()) if saved is not None]
    result.append(Check(len(trained) >= scenes, f"{len(trained)} attempts resumed from a checkpoint"))
    for number in trained:
        saved, at = fenced[number], resumed.get(number)
        text = f"attempt {number} resumed at step {formats.count(at)}; saved was step {formats.count(saved)}"
        result.append(Check(at == saved, text))
    return [*result, *_nothing_lost(job, script), *_pods_kept(job, script, pods)]


def _nothing_lost(job: TrainingJob, script: Script) -> list[Check]:
    """After a notice no step is lost."""
    by_number = {record.number: record for record in job.status.history}
    found = []
    for struck in script.played:
        record = by_number.get(struck.attempt)
        if struck.scene.blow is Blow.RECLAIM and record is not None:
            again = record.steps_lost
            found.append(
                Check(again == 0, f"{formats.count(again)} steps were lost with node {struck.node}, which gave notice")
            )
    return found


def _pods_kept(job: TrainingJob, script: Script, pods: Collection[str]) -> list[Check]:
    """With several nodes, each interruption costs one pod, and no other pod is replaced."""
    nodes, name = job.spec.trainer.nodes, job.metadata.name
    if nodes == 1:
        return []
    spared = [rank for rank in range(nodes) if rank not in {struck.scene.rank for struck in script.played}]
    kept = [rank for rank in spared if {pod for pod in pods if pod.endswith(f"-{rank}")} == {f"{name}-1-{rank}"}]
    ranks = " and ".join(map(str, spared))
    return [Check(kept == spared, f"the pods of ranks {ranks} are those of the first attempt")]
