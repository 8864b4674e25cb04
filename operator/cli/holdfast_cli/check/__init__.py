"""`holdfast check`: what applying a manifest would do.

Belongs here: findings about manifests, nodes and the objects that a job names.
Does not belong here: validation rules (api).
"""
