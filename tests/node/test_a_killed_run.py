"""A run of tests that is killed while its real nodes have pods."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
from tests.support.guard import REPOSITORY
from tests.support.real_node import control_groups, remains
from tests.support.real_node.images import Images
from tests.support.real_node.node import PAUSE_IMAGE
from tests.support.waiting import wait_for

RUN = """
import json, signal, sys
from pathlib import Path

from tests.support import guard
from tests.support.cluster.agent_pods import pod
from tests.support.cluster.local_cluster import apply, get, patch
from tests.support.real_node.cluster import real_cluster
from tests.support.waiting import wait_for

images, image, volume, note = json.loads(sys.argv[1])
mount = {"name": "volume", "mountPath": "/volume", "subPath": "inner"}
main = {"name": "main", "image": image, "command": ["sleep", "infinity"], "volumeMounts": [mount]}
guard.start()
with real_cluster({"real-1": {}}, {name: Path(path) for name, path in images.items()}) as real:
    volumes = [{"name": "volume", "hostPath": {"path": volume}}]
    rules = {"pod-security.kubernetes.io/enforce": "privileged"}
    patch(real.cluster, "namespace/default", {"metadata": {"labels": rules}})
    apply(real.cluster, pod("p", main, volumes=volumes), namespace="default")
    wait_for(lambda: get(real.cluster, "pod/p", "default")["status"]["phase"] == "Running", 60, "the pod")
    Path(note).write_text(f"{real.nodes['real-1'].folder}\\n{real.nodes['real-1'].kubelet.pid}\\n")
    signal.pause()
"""


def test_a_killed_run_leaves_nothing_of_a_node_and_all_of_a_volume(tmp_path: Path, images: Images) -> None:
    """Breaks if a process, a group or a folder of a node outlives a run, or a pod's volume is removed with the node."""
    kept, note = tmp_path / "volume" / "inner" / "kept", tmp_path / "note"
    kept.parent.mkdir(parents=True)
    kept.touch()
    archives = {name: str(images.archives[name]) for name in (PAUSE_IMAGE, images.base)}
    given = json.dumps([archives, images.base, str(tmp_path / "volume"), str(note)])
    run = subprocess.Popen([sys.executable, "-c", RUN, given], cwd=REPOSITORY)
    try:
        wait_for(lambda: run.poll() is not None or _is_whole(note), 120, "the run to have a pod on a node")
        assert run.poll() is None, "the run has failed"
        name, kubelet = note.read_text().splitlines()
        folder = Path(name)
        assert "volume-subpaths" in Path(f"/proc/{kubelet}/mountinfo").read_text(), "the node has mounted the volume"
        assert name not in Path("/proc/self/mountinfo").read_text(), "and not on this machine"
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    wait_for(lambda: not folder.exists(), 60, "the folder to be removed")
    assert not control_groups.processes(remains.group(folder))
    assert not [one for one in psutil.process_iter(["cmdline"]) if name in " ".join(one.info["cmdline"] or ())]
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{folder.name}"))
    assert kept.exists(), "the volume is not the node's"


def _is_whole(note: Path) -> bool:
    return note.exists() and note.read_text().count("\n") == 2
