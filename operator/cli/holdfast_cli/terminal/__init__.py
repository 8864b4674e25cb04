"""What all commands share to write for people: console, tables, formats, parsing of options.

Belongs here: how something is written on a terminal or read from it.
Does not belong here: anything that talks to a cluster or a storage.
"""
