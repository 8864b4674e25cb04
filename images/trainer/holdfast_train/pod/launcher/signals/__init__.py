"""Signals that come to the launcher: which processes of the program get them, and in which order."""
