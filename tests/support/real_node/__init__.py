"""Real nodes in tests: containerd, runc, a kubelet and kube-proxy for each, beside the local cluster's control plane.

Each node has the network namespace of a simulated node of an isolated network, and mounts, control groups and a folder
of its own, so two of them fit on one machine and no packet leaves it. Names of Services come from CoreDNS.
"""
