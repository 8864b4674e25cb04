"""What a cluster would do with a manifest: asks the API server without changing anything."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.api.errors import SpecError
from holdfast.api.job import TrainingJobSpec
from holdfast.api.names import API_VERSION, JOB_KIND, JOB_PLURAL, PROFILE_KIND, PROFILE_PLURAL
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import Tier
from holdfast.api.review import named
from holdfast.core.status.never_fits import LOWER
from holdfast.runtime.apiserver.client import MERGE_PATCH
from holdfast.runtime.errors import ApiError
from holdfast_cli.check.accelerator_memory import Needs
from holdfast_cli.check.findings import Report
from holdfast_cli.check.memory_room import FIELD, State, check_memory, reported_shortage, stored_state
from holdfast_cli.check.node_fit import Node, fit, has_labels
from holdfast_cli.check.referenced_objects import PLURALS, Reference, references
from holdfast_cli.jobs.put_back import put_back_words

Manifest = dict[str, Any]
_DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "holdfast-check"}


class Api(Protocol):
    """The part of runtime.apiserver.client.Client that is used here."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str | int] | None = None,
        content_type: str | None = None,
    ) -> dict[str, Any]:
        """Send a request; ApiError if it is refused."""


@dataclass(slots=True)
class Preflight:
    """Checks manifests against one cluster. `manifests` are all that were given: none of them counts as missing.

    `state`: the size of the state of its trainings, if that was said; otherwise that of a job's newest checkpoint.
    `needs`: what the tensors of a step need, if that was said.
    """

    client: Api
    namespace: str
    manifests: Sequence[Manifest]
    state: State | None = None
    needs: Needs | None = None
    _nodes: list[Node] | None = field(default=None, init=False)

    async def check(self, manifest: Manifest, report: Report) -> None:
        """Add what the cluster answers about a valid manifest. ApiError if it does not answer."""
        await self._dry_run(manifest, report)
        if manifest["kind"] == PROFILE_KIND:
            await self._tiers(CapacityProfile.parse(named(manifest)).spec.tiers, None, "spec.tiers", report)
            return
        job = TrainingJob.parse(named(manifest))
        namespace = job.metadata.namespace or self.namespace
        profile, tiers = job.spec.capacity.profile, tuple[Tier, ...](job.spec.capacity.tiers)
        if profile is None:
            await self._tiers(tiers, job, "spec.capacity.tiers", report)
        elif tiers := tuple(await self._profile_tiers(profile, report)):
            await self._tiers(tiers, job, f"capacityprofile/{profile}", report)
        await self._size(manifest, job.spec, tiers, report)
        for reference in references(job.spec):
            await self._reference(reference, namespace, report)

    async def _dry_run(self, manifest: Manifest, report: Report) -> None:
        """Dry-run a create, or a change if the object exists: so that rules about changes are checked too."""
        path = self._collection(manifest)
        try:
            await self.client.request("POST", path, body=manifest, params=_DRY_RUN)
            report.note("cluster", "the API server would create the object")
        except ApiError as error:
            if not error.already_exists:
                self._refusal(error, report)
                return
            await self._dry_run_change(f"{path}/{manifest['metadata']['name']}", manifest, report)

    async def _dry_run_change(self, path: str, manifest: Manifest, report: Report) -> None:
        try:
            await self.client.request("PATCH", path, body=manifest, params=_DRY_RUN, content_type=MERGE_PATCH)
            report.note("cluster", "the object exists, and the API server would change it")
        except ApiError as error:
            self._refusal(error, report)

    def _refusal(self, error: ApiError, report: Report) -> None:
        if error.transient or error.status == 401:
            raise error
        message = error.message
        if error.status == 404 and "could not find the requested resource" in message:
            message = f"{API_VERSION} is unknown to the cluster: install Holdfast first (kubectl apply -f crds/)"
        report.error("cluster", message or str(error))

    def _collection(self, manifest: Manifest) -> str:
        if manifest["kind"] == JOB_KIND:
            namespace = manifest["metadata"].get("namespace") or self.namespace
            return f"/apis/{API_VERSION}/namespaces/{namespace}/{JOB_PLURAL}"
        return f"/apis/{API_VERSION}/{PROFILE_PLURAL}"

    async def _profile_tiers(self, name: str, report: Report) -> Sequence[Tier]:
        own = self._given(PROFILE_KIND, name)
        found = own[0] if own else await self._get(f"/apis/{API_VERSION}/{PROFILE_PLURAL}/{name}")
        where = "spec.capacity.profile"
        if isinstance(found, str):
            report.warn(where, f'capacityprofile "{name}" {found}')
            return ()
        try:
            tiers = CapacityProfile.parse(found).spec.tiers
        except SpecError as error:
            report.warn(where, f'capacityprofile "{name}" cannot be used: {error}')
            return ()
        report.note(where, f"{len(tiers)} tiers: {', '.join(tier.name for tier in tiers)}")
        return tiers

    async def _tiers(self, tiers: Iterable[Tier], job: TrainingJob | None, where: str, report: Report) -> None:
        if self._nodes is None:
            try:
                self._nodes = (await self.client.request("GET", "/api/v1/nodes")).get("items") or []
            except ApiError as error:
                if error.status != 403:
                    raise
                report.warn(where, "this user may not list nodes: whether the tiers match any is unknown")
                for tier in tiers:
                    self._accelerators(tier, job, f"{where}[{tier.name}]", report)
                return
        for tier in tiers:
            self._tier(tier, job, f"{where}[{tier.name}]", report)
            self._accelerators(tier, job, f"{where}[{tier.name}]", report)

    def _tier(self, tier: Tier, job: TrainingJob | None, where: str, report: Report) -> None:
        nodes = self._nodes or []
        if job is None:
            count = sum(has_labels(node, tier.node_selector) for node in nodes)
            report.note(where, f"{count} nodes have its labels") if count else report.warn(where, _NO_NODE)
            return
        found = fit(tier, job.spec.trainer, nodes)
        wanted = job.spec.trainer.nodes
        if 0 < found.usable < wanted:
            others = "no autoscaler brings more" if tier.observation == "Free" else "unless an autoscaler brings more"
            report.warn(
                where,
                f"{found.usable} of {found.labelled} nodes with its labels could run the pods, and spec.trainer.nodes "
                f"is {wanted}: the training cannot run here; {others}",
            )
        elif found.usable:
            report.note(where, f"{found.usable} of {found.labelled} nodes with its labels could run the pod")
        elif found.larger:
            unless = "" if tier.observation == "Free" else "; otherwise something has to bring a larger node"
            report.warn(
                where,
                f"{found.labelled} nodes have its labels, and a pod asks for more than any of them has: {found.larger}."
                f" To start it, {LOWER}{unless}",
            )
        elif found.labelled:
            report.warn(
                where, f"{found.labelled} nodes have its labels, none could run the pod: {'; '.join(found.reasons)}"
            )
        else:
            report.warn(where, _NO_NODE)

    def _accelerators(self, tier: Tier, job: TrainingJob | None, where: str, report: Report) -> None:
        if self.needs and job is not None:
            self.needs.check(tier, job.spec.trainer, self._nodes or [], where, report)

    async def _size(self, manifest: Manifest, spec: TrainingJobSpec, tiers: Sequence[Tier], report: Report) -> None:
        """Say if a save fits into the memory, or what a start puts back, as far as the size of the state is known."""
        stored, trainer = await self._stored(manifest), spec.trainer
        if spec.checkpoint.folder is not None:  # nothing of it is copied into memory
            if stored and (words := put_back_words(spec.checkpoint, stored.status)):
                report.note("spec.checkpoint.putBack", words)
        elif stored and (words := reported_shortage(stored, trainer)):
            report.warn(FIELD, f"its trainer reports: {words}")
        elif state := self.state or (stored and stored_state(stored.status)):
            check_memory(trainer, tiers, state, report)

    async def _stored(self, manifest: Manifest) -> TrainingJob | None:
        """The job of this name in the cluster, None if there is none that can be read."""
        name = manifest["metadata"].get("name")
        found = await self._get(f"{self._collection(manifest)}/{name}") if name else _MISSING
        try:
            return None if isinstance(found, str) else TrainingJob.parse(found)
        except SpecError:
            return None

    async def _reference(self, reference: Reference, namespace: str, report: Report) -> None:
        own = self._given(reference.kind, reference.name)
        path = f"/api/v1/namespaces/{namespace}/{PLURALS[reference.kind]}/{reference.name}"
        found = own[0] if own else await self._get(path)
        named = f'{reference.kind} "{reference.name}"'
        if isinstance(found, str):
            if not (reference.optional and found == _MISSING):
                report.warn(reference.field, f"{named} {found} in namespace {namespace}")
            return
        held = {**(found.get("data") or {}), **(found.get("stringData") or {}), **(found.get("binaryData") or {})}
        missing = [key for key in reference.keys if key not in held]
        if missing and not reference.optional:
            report.warn(reference.field, f"{named} has no key {', '.join(missing)}")
        else:
            report.note(reference.field, f"{named} exists")

    def _given(self, kind: str, name: str) -> list[Manifest]:
        """The manifests of this kind and name."""
        same = (one for one in self.manifests if one["kind"] == kind)
        return [one for one in same if isinstance(meta := one.get("metadata"), dict) and meta.get("name") == name]

    async def _get(self, path: str) -> Manifest | str:
        """The object, or a text that says why it is not available."""
        try:
            return await self.client.request("GET", path)
        except ApiError as error:
            if error.not_found:
                return _MISSING
            if error.status == 403:
                return "may not be read by this user: whether it exists is unknown"
            raise


_MISSING = "is missing"
_NO_NODE = "no node has its labels now: only an autoscaler could add one"
