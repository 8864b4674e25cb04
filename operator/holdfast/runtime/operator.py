"""The operator process: it creates all parts, starts them in order, watches them and stops them in order.

Every operator reads the CA, serves /metrics and checks that it can read the cluster; then it is ready. A follower only
waits for the lease. A leader reads the cluster once, then starts the watches, the workers and the progress endpoint. If
a part ends unexpectedly, the process ends with an exit code other than 0: a restart is always safe, and better than
running without a part.
"""

import asyncio
import logging
import signal
import uuid
from collections.abc import Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from holdfast.core.decide import decide as core_decide
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.apiserver.leadership_gate import LeadershipGate
from holdfast.runtime.apiserver.lease import Elector
from holdfast.runtime.apiserver.own_pod import OwnPod
from holdfast.runtime.endpoint.ca_configmap import CaConfigMap
from holdfast.runtime.endpoint.certificates import Certificates
from holdfast.runtime.endpoint.metrics_review import MetricsReviewer
from holdfast.runtime.endpoint.pod_membership import PodMembership
from holdfast.runtime.endpoint.serving_ca import read_or_create_ca
from holdfast.runtime.endpoint.token_review import TokenReviewer
from holdfast.runtime.errors import ApiError, LeadershipLostError, UnreachableError
from holdfast.runtime.event_loop_lag import measure_lag
from holdfast.runtime.health import Health, HealthServer
from holdfast.runtime.housekeeping.node_claims import NodeClaims
from holdfast.runtime.housekeeping.profile_knowledge import ProfileStatusWriter
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.resync import Resync
from holdfast.runtime.informer.watch import Frames, Watches
from holdfast.runtime.informer.work_queue import WorkQueue
from holdfast.runtime.loop.events import EventRecorder
from holdfast.runtime.loop.execute import Executor
from holdfast.runtime.loop.progress_slots import ProgressSlots
from holdfast.runtime.loop.reconcile import Decide, Reconciler
from holdfast.runtime.settings import Settings, split_address
from holdfast.serve.auth import Authenticator, ReviewedTokens
from holdfast.serve.certs import service_hosts
from holdfast.serve.exposition import Exposition
from holdfast.serve.fleet import Fleet, ProfileCollector
from holdfast.serve.members import MemberBook
from holdfast.serve.metrics import Metrics
from holdfast.serve.metrics_endpoint import MetricsServer, Reader
from holdfast.serve.orders import OrderBoard
from holdfast.serve.progress_endpoint import ProgressServer
from holdfast.serve.reports import ReportBook
from holdfast.serve.token_bucket import TokenBucket

log = logging.getLogger(__name__)

FORGET_EVERY = 60.0  # seconds between two clean-ups of memory about deleted objects
LOOK_FOR_ROOM_EVERY = 0.2  # seconds
READ_RIGHT_FOR = 60.0  # seconds until the right to read /metrics is reviewed again
PUBLISH_CA_EVERY = 600.0  # seconds between two looks at the ConfigMap by which Prometheus trusts /metrics


def utc_now() -> datetime:
    """The operator's wall clock. All times in status are from it."""
    return datetime.now(UTC)


class Operator:
    """One operator process. `decide` is the pure core; tests use smaller functions."""

    def __init__(self, settings: Settings, client: Client, decide: Decide = core_decide) -> None:
        self._settings = settings
        self._client = client
        self._stop = asyncio.Event()
        self._lost = self._prepared = self._serving = False
        self._tasks: list[asyncio.Task[None]] = []
        self._metrics = Metrics()
        client.observer = self._metrics.observe_call
        self._gate = LeadershipGate()
        self._identity = f"{settings.identity}_{uuid.uuid4().hex[:8]}"
        self._elector = Elector(
            client,
            self._gate,
            namespace=settings.namespace,
            identity=self._identity,
            duration=settings.lease_duration,
            renew=settings.lease_renew,
            may_compete=lambda: self._own_pod.is_reachable,
        )
        self._writer = GatedWriter(client, self._gate, TokenBucket(settings.qps, settings.burst))
        self._own_pod = OwnPod(client, self._writer, namespace=settings.namespace, name=settings.pod)
        self._cache = Cache(settings.fault_signs(), settings.operator_config(), utc_now)
        self._queue: WorkQueue[Key] = WorkQueue(
            seed=settings.seed, group_of=lambda key: key.namespace, workers=settings.workers
        )
        self._slots = ProgressSlots(settings.progress_writes, lambda key: self._queue.after(key, 0.001, calm=True))
        self._frames = Frames()
        self._resync = Resync(client, self._cache, self._queue, every=settings.resync_every, seed=settings.seed)
        self._board = OrderBoard(utc_now)
        config = settings.operator_config()
        self._book = ReportBook(self._wake, config.status_interval)
        self._members = MemberBook(self._wake)
        event_writer = GatedWriter(client, self._gate, TokenBucket(max(1.0, settings.qps / 4), settings.burst / 4))
        self._events = EventRecorder(event_writer, self._identity, urgent=lambda: self._queue.urgent)
        self._config = config
        self._profiles = ProfileStatusWriter(
            self._writer,
            self._cache,
            self._queue,
            every=settings.profile_writes_every,
            acquire_time=config.assumed.acquire_time,
            now=utc_now,
        )
        self._decide = decide
        self._certificates: Certificates | None = None
        self._executor: Executor | None = None
        self._progress: ProgressServer | None = None
        self._health = Health(
            leading=lambda: self._gate.is_open,
            lease_age=lambda: self._elector.age,
            contact_age=lambda: self._elector.contact_age,
            prepared=lambda: self._prepared,
            frames=self._frames.ages,
            watch_gaps=self._frames.gaps,
            queue_stalled=lambda: self._queue.stalled,
            resync_age=lambda: self._resync.age,
            resync_every=settings.resync_every,
            serving=lambda: self._serving,
        )
        self._health_server = HealthServer(self._health)
        self.exposition = self._make_exposition()
        self._metrics_server = MetricsServer(self.exposition.page, _readers(settings, client))

    def _make_exposition(self) -> Exposition:
        registry, fleet = self._metrics.registry, Fleet()
        registry.register(fleet)
        self._add_metrics()
        most = self._settings.metrics_jobs
        return Exposition(registry, self._cache.jobs.values, utc_now, fleet=fleet, most_jobs=most)

    def _add_metrics(self) -> None:
        metrics = self._metrics
        metrics.registry.register(ProfileCollector(lambda: list(self._cache.profiles.values())))
        self._cache.listeners.append(metrics.observe_change)
        metrics.read("queue_depth", "Jobs that wait for a worker", lambda: len(self._queue))
        metrics.read("queue_oldest_seconds", "Longest wait of a job in the queue", lambda: self._queue.oldest)
        metrics.read("queue_scheduled", "Jobs that are scheduled for later", lambda: self._queue.scheduled)
        metrics.read("leading", "1 if this process is the leader, otherwise 0", lambda: float(self._gate.is_open))
        metrics.read("lease_age_seconds", "Seconds since this leader renewed its Lease", lambda: self._elector.age)
        metrics.read("resync_age_seconds", "Seconds since all objects were listed", lambda: self._resync.age)
        metrics.read("malformed_jobs", "Jobs that cannot be read", lambda: len(self._cache.malformed))
        metrics.read("events_dropped_total", "Kubernetes Events that were dropped", lambda: self._events.dropped)
        metrics.read("order_waits", "Requests of pods that wait for orders", lambda: self._board.waiting)
        metrics.read("member_waits", "Launchers of several nodes that wait", lambda: self._members.waiting)
        metrics.read(
            "metrics_render_seconds",
            "Duration of the last rendering of this page",
            lambda: self.exposition.last_seconds,
        )
        metrics.read(
            "metrics_rendered_timestamp_seconds",
            "When the rendering of this page began: a page is given to all who ask shortly after each other",
            lambda: began.timestamp() if (began := self.exposition.began_at) else None,
        )
        metrics.read_by("resource", "watch_age_seconds", "Seconds since a watch received anything", self._frames.ages)
        self._book.saved = metrics.observe_checkpoint
        self._board.delivered = metrics.observe_order
        self._frames.connected = lambda resource: metrics.watches.labels(resource).inc()

    def _wake(self, job: tuple[str, str], urgent: bool) -> None:
        key = Key(*job)
        if urgent:
            self._queue.add(key)
        elif key in self._cache.jobs:
            self._slots.wait(key)

    def stop(self) -> None:
        """Request a clean end: finish the work in flight and release the lease."""
        self._stop.set()

    async def run(self) -> int:
        """Run until `stop` (returns 0) or until a part fails (returns 1)."""
        port = await self._health_server.start(*split_address(self._settings.health_bind))
        log.info("health on port %d", port)
        try:
            self._spawn(self._own_pod.run(), "own-pod")
            if await self._or_stop(self._prepare()) and await self._or_stop(self._elector.acquire()):
                self._spawn(self._elector.keep(), "lease")
                if await self._or_stop(self._lead()):
                    await self._or_stop(asyncio.Event().wait())
            return await self._wind_down(self._failure())
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait([*self._tasks, asyncio.create_task(asyncio.sleep(0))], timeout=3)
            await self._metrics_server.stop()
            await self._health_server.stop()

    async def _or_stop(self, work: Coroutine[Any, Any, object]) -> bool:
        """Run `work` until it is done, a stop is requested or a part ends; True if it is done."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        await asyncio.wait({task, stop, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if task.done():
            task.result()
            return True
        task.cancel()
        await asyncio.wait({task})
        return False

    async def _prepare(self) -> None:
        """Read and start what every operator needs. It could lead after that, so it is ready."""
        settings = self._settings
        self._certificates = Certificates(await read_or_create_ca(self._client, settings.namespace), utc_now)
        self._spawn(self._certificates.run(), "certificates")
        context = None
        if settings.metrics_auth == "on":
            hosts = service_hosts(settings.namespace, [f"holdfast-metrics.{settings.namespace}.svc"])
            context = self._certificates.context(hosts)
        port = await self._metrics_server.start(*split_address(settings.metrics_bind), context)
        log.info("metrics on port %d", port)
        await self._resync.until_done(self._resync.check)
        self._prepared = True

    async def _lead(self) -> None:
        settings, certificates = self._settings, self._certificates
        assert certificates is not None
        ca = CaConfigMap(self._writer, certificates.ca.certificate)
        self._executor = Executor(
            writer=self._writer,
            cache=self._cache,
            board=self._board,
            members=self._members,
            events=self._events,
            ca=ca,
            now=utc_now,
        )
        reconciler = Reconciler(
            self._decide,
            queue=self._queue,
            cache=self._cache,
            executor=self._executor,
            reports=self._book,
            slots=self._slots,
            config=self._config,
            now=utc_now,
        )
        reconciler.observe = self._metrics.observe_pass
        await self._resync.until_done()
        self._profiles.begin()
        await self._serve(certificates)
        await self._own_pod.serve()
        for number in range(settings.workers):
            self._spawn(reconciler.work(), f"worker-{number}")
        self._spawn(self._events.run(), "events")
        self._spawn(self._slots.run(), "progress-slots")
        self._spawn(self._resync.run(), "resync")
        self._spawn(self._profiles.run(), "profiles")
        self._spawn(self._forget_gone_regularly(), "forget_gone")
        self._spawn(self._wake_those_with_room(), "room")
        self._spawn(NodeClaims(self._client, self._cache, self._queue).run(), "node-claims")
        self._spawn(measure_lag(self._metrics.lag_seconds.observe), "event-loop-lag")
        if settings.metrics_auth == "on":
            self._spawn(_publish_ca(ca, settings.namespace), "ca-for-metrics")
        watches = Watches(self._client, self._cache, self._queue, self._frames)
        await watches.start()
        _install_signal_handlers(self.stop)
        self._spawn(watches.run(), "watches")
        log.info("leading: %d jobs, %d nodes", len(self._cache.jobs), len(self._cache.cluster.nodes))

    async def _serve(self, certificates: Certificates) -> None:
        settings = self._settings
        host, port = split_address(settings.progress_bind)
        extra = [name for name in (urlsplit(settings.service_url).hostname, host) if name and name != "0.0.0.0"]  # noqa: S104
        context = certificates.context(service_hosts(settings.namespace, extra))
        self._progress = ProgressServer(
            auth=Authenticator(TokenReviewer(self._client), self._may_know),
            book=self._book,
            board=self._board,
            members=self._members,
            membership=PodMembership(self._cache, lambda: self._resync.last is not None),
            leading=self._may_answer,
            now=utc_now,
            report_every=self._config.status_interval.total_seconds(),
        )
        self._progress.observe = self._metrics.observe_request
        bound = await self._progress.start(host, port, context)
        self._serving = True
        log.info("progress endpoint on port %d", bound)

    def _may_know(self, pod_uid: str) -> bool:
        """True if there is a pod of Holdfast with this UID, or if this process has not read the cluster yet."""
        return self._resync.last is None or self._cache.pod(pod_uid) is not None

    def _may_answer(self) -> bool:
        """True if pods get answers: also in a short outage, but not after one in which another process may lead."""
        return not self._lost and self._gate.closed_for < self._settings.lease_duration

    async def _wake_those_with_room(self) -> None:
        """Decide trainings that wait for nodes as soon as they have room, and those with a part if others may need it.

        Each change of a pod, node or job may make it so, and the end of the time in which others may take nodes, of
        which no event tells. The answer is computed again only if something has changed.
        """
        while True:
            await asyncio.sleep(LOOK_FOR_ROOM_EVERY)
            for key in self._cache.of_room():
                self._queue.add(key)

    async def _forget_gone_regularly(self) -> None:
        while True:
            await asyncio.sleep(FORGET_EVERY)
            self.forget_gone()

    def forget_gone(self) -> None:
        """Forget the state of deleted jobs and pods."""
        uids = {job.metadata.uid for job in self._cache.jobs.values()}
        self._board.keep_only(uids)
        self._slots.keep_only(self._cache.jobs.keys())
        self._members.keep_only(self._cache.pod_uids(), uids)
        self._book.keep_only(self._cache.pod_uids(), self._cache.jobs)
        self._profiles.keep_only(uids | {job.uid for job in self._cache.malformed.values()})
        if self._executor:
            self._executor.keep_only(uids)
            self._executor.inspector.keep_only(self._cache.pod_uids())

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    def _failure(self) -> BaseException | None:
        """The error of a part that ended unexpectedly, None if all parts run."""
        for task in self._tasks:
            if task.done():
                died = None if task.cancelled() else task.exception()
                return died or RuntimeError(f"the task {task.get_name()} ended unexpectedly")
        return None

    async def _wind_down(self, failed: BaseException | None) -> int:
        if isinstance(failed, LeadershipLostError):
            self._lost = True
            self._gate.close()
            log.error("%s", failed)
        elif isinstance(failed, UnreachableError):
            log.error("%s", failed)
        elif failed:
            log.error("a part of the operator failed; the operator ends", exc_info=failed)
        else:
            log.info("stopping")
        self._serving = False
        self._queue.close()
        if self._progress:
            await self._progress.stop()
        if self._gate.is_open:
            workers = [task for task in self._tasks if task.get_name().startswith("worker") and not task.done()]
            if workers:
                await asyncio.wait(workers, timeout=self._settings.drain_timeout)
            with suppress(TimeoutError):
                async with asyncio.timeout(3):
                    await self._own_pod.leave()
                    await self._profiles.flush()
                    await self._events.flush()
        for task in self._tasks:
            task.cancel()
        await asyncio.sleep(0)
        if not self._lost:
            await self._elector.release()
        return 1 if failed else 0


def _readers(settings: Settings, client: Client) -> ReviewedTokens[Reader] | None:
    """The users that may read /metrics; None if everyone may."""
    if settings.metrics_auth == "off":
        return None
    return ReviewedTokens(MetricsReviewer(client), valid_for=READ_RIGHT_FOR)


async def _publish_ca(ca: CaConfigMap, namespace: str) -> None:
    """Keep the CA in the operator's own namespace, so that a ServiceMonitor can refer to it."""
    while True:
        try:
            await ca.ensure(namespace)
        except ApiError as error:
            log.warning("cannot write the CA into namespace %s: %s", namespace, error)
        await asyncio.sleep(PUBLISH_CA_EVERY)


def _install_signal_handlers(stop: Any) -> None:
    """Make SIGTERM and SIGINT end the operator cleanly. Needed again after the start of kopf, which replaces them."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


async def run(settings: Settings, decide: Decide = core_decide) -> int:
    """Run an operator until it is stopped and return the exit code. Raises ConfigurationError, OSError."""
    async with await Client.auto(settings.kubeconfig) as client:
        operator = Operator(settings, client, decide)
        _install_signal_handlers(operator.stop)
        return await operator.run()
