"""Jobs like the user's, each on one tier alone, which a command makes and removes: probes and rehearsals.

Belongs here: what such a job has in common with the user's, where it stores, and how all of it is removed.
Does not belong here: what a command does with its jobs while they run.
"""
