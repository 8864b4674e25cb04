"""Progress of a program without Holdfast's library: from what it posts or prints, to the operator and the history.

Belongs here: the server that a program posts to, what is read from its output, and who gets it (`relay`).
Does not belong here: how the output goes on to the container's log (`tee`).
"""
