"""What people see after every decision: conditions, progress, forecast, phase and reason.

Belongs here: fields of status that no row of the table reads. Does not belong here: anything that changes what the job
does next. Layers: the highest room of core; only table and decide are above it.
"""
