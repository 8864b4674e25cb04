"""One pass over one job: gather, decide, execute.

Belongs here: reconcile, execute, writes of pods and events.
Does not belong here: choices (core decides), work that is not about one job (housekeeping).
"""
