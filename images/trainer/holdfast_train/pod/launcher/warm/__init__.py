"""The process that waits beside the program of a node, and becomes the program of the next attempt.

Belongs here: which programs can have one, what it imports, its start and its end. `spare_hook`, beside the launcher,
is what runs in that process.
Does not belong here: attempts and their orders.
"""
