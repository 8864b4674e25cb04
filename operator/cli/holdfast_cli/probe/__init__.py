"""`holdfast probe`: run a few steps of a job on each tier, and measure them.

Belongs here: the jobs that measure, how they are run and removed, and the table, the answer and the patch that result.
Does not belong here: the simulation of a whole training, which is `holdfast plan`.
"""
