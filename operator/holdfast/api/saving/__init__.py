"""Fields of `spec.checkpoint` that have more than one form: how often to save, and where to start.

Belongs here: their models, their schemas, and CEL about them. Does not belong here: the other fields (`job`).
Layers: above `model`, `scalars` and `strings`, below `job`.
"""
