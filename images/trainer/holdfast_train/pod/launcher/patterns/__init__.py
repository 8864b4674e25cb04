"""Progress of a program that reports nothing, from what it prints.

Belongs here: the patterns of `progress.patterns`, how they are found in a line, and which lines are looked at.
Does not belong here: how the output goes on to the container's log (`output`), and how progress reaches the operator
(`relay`).
"""
