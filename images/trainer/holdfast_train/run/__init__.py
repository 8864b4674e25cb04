"""`Run`, the one class that a training loop sees: how it starts, waits at the fence, saves and leaves.

Belongs here: the life of one training process, and what it does on a notice.
Does not belong here: how a save or a restore works.
Layers: imports everything below; only exchange and the examples stand above it.
"""
