"""A rehearsal on one tier of a cluster: each run is a TrainingJob like the user's, which is removed in the end.

It needs only what a researcher may do: create, change and delete TrainingJobs, and delete their pods.
"""
