"""`holdfast why`: the policy's answer for one job, with every figure behind it.

Belongs here: asking core for its reasons, and showing them as a screen or as JSON.
Does not belong here: the policies (core.capacity).
"""
