"""One attempt from intent to end: start, drain, end, suspend, and what people request of it.

Belongs here: guards and deeds of the rows of TABLE.
Does not belong here: the attempt that comes up beside it (successor), the order of rows (table).
"""
