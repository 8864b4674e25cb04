"""How the operator talks to the API server: the client, its paths, and who may write.

Belongs here: requests, leader election, the gate that refuses writes without the lease.
Does not belong here: what is written and why. Only client.py imports the Kubernetes client.
Layers: the lowest room of runtime.
"""
