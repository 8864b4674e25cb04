"""Work beside the loop: status of profiles, orphaned pods, malformed jobs, uninstalling.

Belongs here: writes that concern no decision about a job.
Does not belong here: the loop itself.
"""
