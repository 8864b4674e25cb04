"""The Python face of Holdfast: `from holdfast import Client`.

Belongs here: the names that a person's own program or notebook uses, and how a call of them is run.
Does not belong here: what a command does too. Both call one function, in the room of the subject.
"""
