"""The attempt that comes up beside the current one: after a notice, or for another tier.

Belongs here: guards and deeds of SUCCESSOR_TABLE, and of the rows of TABLE that raise a successor.
Does not belong here: what an attempt does on its own (attempt).
"""
