"""The isolated network of a local cluster: one network namespace for each node, joined by a bridge.

Belongs here: which names and addresses it has, and how it is made and removed with iproute2.
Does not belong here: cutting nodes off and starting processes in them (the agent).

    the machine  ── HF… ──┐
                          ├── bridge, in a namespace of its own
    node 1 ── eth0 ── n0 ─┤
    node 2 ── eth0 ── n1 ─┘

The bridge has a namespace of its own so that firewall rules of the machine (Docker, Kubernetes) do not drop what nodes
send to each other, and so that the machine gets only one interface. The namespaces have no other route.
"""
