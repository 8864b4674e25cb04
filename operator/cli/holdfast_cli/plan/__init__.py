"""`holdfast plan`: what a job is going to cost, and when it will be done, before it runs.

Belongs here: what the user, the manifests and a cluster know of a job, and the words, tables and pages of the result.
Does not belong here: the simulation, which is in holdfast_cli.simulate.plan, and anything that changes a cluster.
"""
