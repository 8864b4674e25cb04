"""`holdfast logs`: what the programs of a job wrote, over its attempts and ranks.

Belongs here: reading container logs again after a break, their order, and how their lines are shown.
Does not belong here: anything about a job that is not in a log, apart from the words between two attempts.
"""
