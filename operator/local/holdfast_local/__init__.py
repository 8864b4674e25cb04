"""A Kubernetes cluster on one machine without containers, and the demo that runs in it.

Belongs here: the processes of the cluster, its nodes and pods, and the tools that it is made of.
Does not belong here: what the operator or a training pod needs; tools that only tests start (tests/support/tools).
"""
