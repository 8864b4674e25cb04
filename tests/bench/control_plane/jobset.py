"""JobSet beside Holdfast: its controller from the Go module, with its own CRDs and rights.

It runs as one process, with the 500 requests a second that it ships with. Its webhooks, which fill in defaults and
refuse mistakes, are not registered: `jobs.job_set` has all defaults, so JobSet saves one call for each object.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, Self

import yaml
from tests.bench.control_plane.controller_process import ControllerProcess
from tests.bench.waiting import until
from tests.support.tools.catalogue import JOBSET
from tests.support.waiting import wait_for

from holdfast_local import golang, ports, toolchain
from holdfast_local.cluster import Cluster
from holdfast_local.errors import LocalError, ToolError
from holdfast_local.pki import Pki
from holdfast_local.progress_bar import Silent

NAMESPACE, ACCOUNT = "jobset-system", "jobset-controller-manager"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
ROLE = "jobset-manager-role"
GROUP = "jobset.x-k8s.io"
CRDS = "config/components/crd/bases"
RIGHTS = "config/components/rbac/role.yaml"


def version() -> str:
    """The version that is measured."""
    return toolchain.module_version(JOBSET)


class JobSetController(ControllerProcess):
    """The controller's process; use it as a context manager, again and again. ToolError if it cannot be built here."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._folder = cluster.root / "jobset"
        self._binary = toolchain.build(JOBSET)
        self._module = _module()

    def __enter__(self) -> Self:
        if not self._folder.exists():
            self._install()
        config = self._folder / "config.yaml"
        config.write_text(yaml.safe_dump(_configuration(self._folder / "certificates")), encoding="utf-8")
        kubeconfig = self._cluster.kubeconfig_for(NAMESPACE, ACCOUNT)
        self.log.unlink(missing_ok=True)  # `ready` reads what this process says
        self._start([str(self._binary), f"--config={config}"], self._folder, {"KUBECONFIG": str(kubeconfig)})
        return self

    @property
    def log(self) -> Path:
        """What the controller says."""
        return self._folder / "jobset.log"

    async def ready(self) -> None:
        """Until its workers run. TimeoutError if they do not."""

        async def works() -> bool:
            return "Starting workers" in self.log.read_text(encoding="utf-8", errors="replace")

        await until(works, 60, f"the JobSet controller to start: see {self.log}")

    def _install(self) -> None:
        """Its rights, its CRDs, and a certificate for its webhook server, which must start."""
        certificates = self._folder / "certificates"
        certificates.mkdir(parents=True)
        server = Pki(self._folder / "pki").issue("server", "jobset-webhook", hosts=("localhost",))
        server.cert.rename(certificates / "tls.crt")
        server.key.rename(certificates / "tls.key")
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
        rights: dict[str, Any] = yaml.safe_load((self._module / RIGHTS).read_text(encoding="utf-8"))
        rights["metadata"]["name"] = ROLE
        group = "rbac.authorization.k8s.io"
        objects = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}},
            rights,
            {
                "apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ROLE},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ROLE}, "subjects": [subject],
            },
        ]  # fmt: skip
        self._cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
        for file in sorted((self._module / CRDS).glob("*.yaml")):
            self._cluster.kubectl("apply", "--server-side", "-f", str(file))
        wait_for(self._is_served, 30, "the API server to serve JobSets")

    def _is_served(self) -> bool:
        try:
            return bool(self._cluster.kubectl("get", "--raw", f"/apis/{GROUP}/v1alpha2"))
        except LocalError:
            return False


def _configuration(certificates: Path) -> dict[str, Any]:
    found = ports.free(("webhook", "health"))
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{ports.HOST}:{found['health']}"},
        "webhook": {"host": ports.HOST, "port": found["webhook"], "certDir": str(certificates)},
    }


def _module() -> Path:
    """The folder of the module's sources, where its CRDs are. ToolError if it cannot be fetched."""
    go = golang.find(toolchain.minimum_go(JOBSET), Silent())
    command = [str(go.command), "mod", "download", "-json", f"{JOBSET.module}@{version()}"]
    done = subprocess.run(
        command, cwd=JOBSET.sources, env=go.environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ToolError(f"the sources of {JOBSET.module} cannot be fetched: {done.stdout[-500:]}{done.stderr[-500:]}")
    return Path(json.loads(done.stdout)["Dir"])
