"""How a command reaches the cluster: the connection and calls about jobs.

Belongs here: kubeconfig, requests, their errors as CliError.
Does not belong here: what is shown.
"""
