"""From a commit back to objects: find the newest intact checkpoint, read it, and load it into a program.

Belongs here: candidates, chunk reading with checks, lazy tensors, load and load_weights.
Does not belong here: writing checkpoints (save), waiting at the fence (run).
"""
