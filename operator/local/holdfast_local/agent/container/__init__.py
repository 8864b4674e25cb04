"""One container of a pod: its environment, files and processes, from its image to its end.

Belongs here: what a kubelet and a container runtime do for one container.
Does not belong here: the life of the whole pod (agent.pod), the node (agent.node).
"""
