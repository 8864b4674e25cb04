"""What people see at the end of every pass: conditions, progress, forecast, the words of the phase.

Belongs here: fields of status that no row of the table reads.
Does not belong here: anything that changes what the job does next.
Layers: the highest room of core; only decide stands above it.
"""
