"""Holdfast in a local cluster: its API, its operator as a part of the cluster, a CapacityProfile and a Secret.

Belongs here: what `holdfast local up` adds to a bare cluster. Does not belong here: the cluster itself, which tests use
without Holdfast.
"""
