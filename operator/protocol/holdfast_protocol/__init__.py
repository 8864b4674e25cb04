"""What the operator and its pods say to each other: names, documents, limits and rules that both sides use.

Both sides import the modules of this package, and it imports neither of them. The launcher takes it into images of
users, so it uses the standard library only and runs on Python 3.9 and later: annotations are never evaluated, and there
is no `match`. It does no I/O and reads no clock.
"""
