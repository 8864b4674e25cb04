"""What passes the progress of a program without Holdfast's library on: to the operator, and to the history.

Belongs here: the server that a program posts to, what sends to the operator, and what keeps progress for the history.
Does not belong here: when they run (`progress_relay`), and what is read from the output (`patterns`).
"""
