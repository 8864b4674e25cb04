"""The `holdfast` command: what people ask of jobs, tiers and checkpoints, from their own machine.

Belongs here: commands, and what they show. `main` lists them, and a room has the code of one or a few.
Does not belong here: decisions (holdfast.core), a cluster on this machine (holdfast_local).
"""
