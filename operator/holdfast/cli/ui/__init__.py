"""What all commands share towards people: console, options, tables, formats, completion.

Belongs here: how something is written on a terminal or read from it.
Does not belong here: anything that talks to a cluster or a storage.
Layers: imports cli.errors and api alone.
"""
