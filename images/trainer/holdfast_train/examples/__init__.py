"""Two reference trainers, and a trainer without torch for tests.

Belongs here: programs that people read, and start with `python -m`.
Does not belong here: code that the library imports.
"""
