"""`holdfast open`: a port of the pod in which a job runs now, on this machine.

Belongs here: the listening socket, and connections to pods through the API server.
Does not belong here: what is sent over them.
"""
