"""One real node: containerd with runc, a kubelet and kube-proxy."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

import psutil
import yaml
from tests.support.real_node import control_groups, remains
from tests.support.real_node.daemon import Daemon
from tests.support.real_node.needs import PLUGINS
from tests.support.tools.catalogue import CONTAINERD, CTR, KUBELET, SHIM
from tests.support.waiting import wait_for

from holdfast_local import toolchain
from holdfast_local.agent.config import INTERFACE, NodeNetwork
from holdfast_local.components import certificate_user, write_kubeconfig
from holdfast_local.layout import Layout
from holdfast_local.pki import KeyFiles, Pki

PAUSE_IMAGE = "holdfast.test/pause:1"
_BRIDGE = "cni0"
_OF_CONTAINERS = "k8s.io"  # containerd's namespace for the kubelet

# A network and mounts of its own: no volume of a pod is mounted in the folders of this machine, and all mounts go with
# the node's processes. /run is what a reboot forgets. `ip netns exec` would mount another /sys, without control groups.
_OWN_RUN = "/run/of-this-node"
_BEGIN = f"mount -t tmpfs tmpfs /run && mkdir /run/netns && touch {_OWN_RUN} && exec sleep infinity"

# restrict_oom_score_adj: root in a sandbox may lack the right to lower the score of a process.
_CONTAINERD = f"""version = 3
root = "{{folder}}/root"
state = "/run/containerd"
[grpc]
address = "{{socket}}"
[ttrpc]
address = "{{socket}}.ttrpc"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{{plugins}}"]
conf_dir = "{{folder}}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = "{{runc}}"
"""


@dataclass(frozen=True)
class Place:
    """What a node gets from its cluster.

    Attributes:
        name: of the node.
        root: the folder of the cluster.
        server: the URL of the API server.
        dns: the address of the server for names.
        network: its network namespace and addresses.
        subnet: the addresses of all nodes and pods.
        labels: of the node.
    """

    name: str
    root: Path
    server: str
    dns: str
    network: NodeNetwork
    subnet: IPv4Network
    labels: Mapping[str, str]


class RealNode:
    """A node that runs until `end`."""

    def __init__(self, place: Place) -> None:
        self.name = place.name
        self._place = place
        self.folder = Path(tempfile.mkdtemp(prefix="hf-node-"))
        self._group = remains.group(self.folder)
        self._socket = remains.socket(self.folder)
        tools = {tool.name: toolchain.build(tool) for tool in (KUBELET, CONTAINERD, SHIM, CTR)}
        self._ctr = tools[CTR.name]
        net = f"--net=/var/run/netns/{place.network.namespace}"
        begin = ["nsenter", net, "--", "unshare", "--mount", "--propagation", "private", "--", "sh", "-c", _BEGIN]
        self._namespaces = Daemon(begin, self.folder / "namespaces.log")
        path = os.pathsep.join((str(tools[SHIM.name].parent), os.environ["PATH"]))
        self.containerd = Daemon(
            [tools[CONTAINERD.name], "--config", self._write_containerd()],
            self.folder / "containerd.log",
            self._namespaces,
            {"PATH": path},
        )
        kubeconfig = self._write_kubeconfig()
        self.kubelet = Daemon(
            [tools[KUBELET.name], *self._kubelet_options(kubeconfig)], self.folder / "kubelet.log", self._namespaces
        )
        proxy = tools[KUBELET.name].with_name("kube-proxy")
        self._proxy = Daemon([proxy, *self._proxy_options()], self.folder / "kube-proxy.log", self._namespaces)

    def start(self) -> None:
        """Make its network, and start its servers."""
        _make_network(self._place.network)
        control_groups.make(self._group)
        self.boot()

    def boot(self) -> None:
        """Start the servers of a node that was killed, or is new."""
        self._namespaces.start()
        wait_for(self._has_namespaces, 10, f"the namespaces of {self.name}")
        self.containerd.start()
        wait_for(self._answers, 30, lambda: f"containerd of {self.name}; see {self.folder}")
        self.kubelet.start()
        self._proxy.start()

    def load_image(self, archive: Path, name: str) -> None:
        """Give the node an image from an archive of the OCI."""
        self.ctr("images", "import", "--index-name", name, str(archive))

    def ctr(self, *arguments: str) -> str:
        """Ask containerd. Raises CalledProcessError."""
        command = [self._ctr, "--address", self._socket, "--namespace", _OF_CONTAINERS, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise AssertionError(f"ctr {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def process_of(self, container: str) -> psutil.Process:
        """The first process of a container; `container` is its ID as the API has it."""
        found = json.loads(self.ctr("containers", "info", container.rpartition("/")[2]) or "{}")
        number = next(
            line.split()[1] for line in self.ctr("tasks", "list").splitlines() if line.startswith(found["ID"])
        )
        return psutil.Process(int(number))

    def kill_shim(self, container: str) -> None:
        """Kill the process between containerd and a container: containerd then says that the container has failed."""
        shim = self.process_of(container).parent()
        assert shim is not None
        assert shim.name().startswith("containerd-shim"), shim
        shim.kill()

    def lose_power(self) -> None:
        """End everything on the node at once, and forget what a reboot forgets. `boot` brings it back."""
        for server in (self.kubelet, self._proxy, self.containerd, self._namespaces):
            server.kill()
        remains.lose_power(self.folder)

    def end(self) -> None:
        """End everything and remove the node's files."""
        self.lose_power()
        remains.end(self.folder)

    def _has_namespaces(self) -> bool:
        self._namespaces.check()
        return Path(f"/proc/{self._namespaces.pid}/root{_OWN_RUN}").exists()

    def _answers(self) -> bool:
        self.containerd.check()
        return self._socket.exists() and "Version" in self.ctr("version")

    def _write_containerd(self) -> Path:
        settings = self.folder / "cni"
        settings.mkdir()
        network = self._place.network
        addresses = {
            "subnet": str(self._place.subnet),
            "rangeStart": str(network.pods[1]),
            "rangeEnd": str(network.pods[-2]),
            "gateway": network.address,
        }
        routes = {"type": "host-local", "dataDir": str(self.folder / "addresses"), "ranges": [[addresses]]}
        bridge = {"type": "bridge", "bridge": _BRIDGE, "ipam": {**routes, "routes": [{"dst": "0.0.0.0/0"}]}}
        plugins = {"cniVersion": "1.0.0", "name": self.name, "plugins": [bridge]}
        (settings / "10-bridge.conflist").write_text(json.dumps(plugins))
        path = self.folder / "containerd.toml"
        runc = shutil.which("runc") or "runc"
        path.write_text(_CONTAINERD.format(folder=self.folder, socket=self._socket, plugins=PLUGINS, runc=runc))
        return path

    def _certificate(self) -> KeyFiles:
        pki = Pki(Layout(self._place.root).pki)
        user = f"system:node:{self.name}"
        return pki.issue(f"node-{self.name}", user, "system:nodes", hosts=(self._place.network.address, "127.0.0.1"))

    def _write_kubeconfig(self) -> Path:
        layout = Layout(self._place.root)
        self._files = self._certificate()
        path = layout.kubeconfig(f"node-{self.name}")
        return write_kubeconfig(path, self._place.server, layout.pki / "ca.crt", certificate_user(self._files))

    def _kubelet_options(self, kubeconfig: Path) -> list[str]:
        address, authority = self._place.network.address, Layout(self._place.root).pki / "ca.crt"
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(authority)},
            },
            "authorization": {"mode": "Webhook"},
            "address": address,
            "tlsCertFile": str(self._files.cert),
            "tlsPrivateKeyFile": str(self._files.key),
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._group}",
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [self._place.dns],
            "clusterDomain": "cluster.local",
            "resolvConf": "",
            "podLogsDir": str(self.folder / "logs"),
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "evictionPressureTransitionPeriod": "10s",
            "nodeStatusUpdateFrequency": "5s",
            "nodeLeaseDurationSeconds": 20,
            # No registry has the images: what the kubelet removes cannot come back.
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "serializeImagePulls": False,
        }
        path = self.folder / "kubelet.yaml"
        path.write_text(yaml.safe_dump(config))
        labels = ",".join(f"{key}={value}" for key, value in self._place.labels.items())
        options = {
            "config": path,
            "kubeconfig": kubeconfig,
            "root-dir": self.folder / "kubelet",
            "cert-dir": self.folder / "certificates",
            "hostname-override": self.name,
            "node-ip": address,
            "node-labels": labels,
        }
        return [f"--{name}={value}" for name, value in options.items()]

    def _proxy_options(self) -> list[str]:
        return [
            f"--kubeconfig={Layout(self._place.root).admin_kubeconfig}",
            f"--hostname-override={self.name}",
            "--proxy-mode=iptables",
            "--masquerade-all",
            "--conntrack-max-per-core=0",
        ]


def _make_network(network: NodeNetwork) -> None:
    """Give the namespace of a simulated node a bridge, on which the node and its pods have their addresses."""
    address = f"{network.address}/{network.prefix}"
    commands = [
        f"route delete local {network.pods} dev lo",
        f"address delete {address} dev {INTERFACE}",
        f"link add {_BRIDGE} type bridge",
        f"link set {INTERFACE} master {_BRIDGE}",
        f"address add {address} dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
        f"route add default via {network.address}",
    ]
    ip = ["ip", "-n", network.namespace, "-batch", "-"]
    subprocess.run(ip, input="\n".join(commands) + "\n", text=True, check=True, capture_output=True)
    enter = ["nsenter", f"--net=/var/run/netns/{network.namespace}", "--"]
    forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
    subprocess.run([*enter, "sh", "-c", forward], check=True, capture_output=True)
