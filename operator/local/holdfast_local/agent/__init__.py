"""Node agents of the local cluster: one process that stands for every node and runs its pods as local processes.

What differs from a kubelet, on purpose:

- There are no containers. An image is a folder list for PATH. A volume is a folder, and mount paths in environment,
  command and arguments are rewritten to it; paths inside files are not.
- PID 1 is an ordinary process, so SIGTERM ends it unless it has a handler. In a PID namespace the kernel drops the
  signal.
- When the agent starts, it kills what an earlier agent left running and reports those pods as Failed, with any restart
  policy; their containers ended with exit code 255 and reason Unknown, as containerd reports it after a reboot. It
  adopts nothing. Every node of the configuration comes up, reclaimed ones too.
- The content of configMap volumes is that of the pod's start; tokens and secret volumes are renewed.
- Liveness and startup probes, lifecycle hooks, sidecar init containers, hostPath and read-only mounts are not there.
  hostPath and sidecars are refused, the rest is ignored.
- Memory limits are enforced by polling; CPU and accelerators are only counted.
"""
