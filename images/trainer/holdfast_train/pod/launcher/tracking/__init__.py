"""Experiment trackers into which all attempts of a job log as one run.

Belongs here: what must be asked of a tracker's server before the program starts.
Does not belong here: variables that follow from the job alone, which the operator sets.
"""
