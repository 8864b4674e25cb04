"""`Run`, the only class that a training loop uses: how it starts, waits at the fence, saves and ends.

Belongs here: the life of one training process, its notices, and its ways to end.
Does not belong here: how a save or a restore works.
"""
