"""Access to the API server: the client, the paths, leader election, and the gate for writes.

Belongs here: requests, leader election, the gate that refuses writes without the lease.
Does not belong here: the content of writes. Only client.py imports the Kubernetes client.
"""
