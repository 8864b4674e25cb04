"""`holdfast exec`: a command in the pod in which a job runs now.

Belongs here: the streams of one command through the API server, its exit code, and the terminal of the person.
Does not belong here: ports of a pod (forward), and what programs wrote (logs).
"""
