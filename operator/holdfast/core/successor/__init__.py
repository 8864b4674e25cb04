"""The attempt that comes up beside the current one: after a notice, or for another tier.

Belongs here: guards and steps of SUCCESSOR_TABLE, and of the rows that make a successor.
Does not belong here: what an attempt does on its own (attempt).
Layers: imports attempt and everything below it.
"""
