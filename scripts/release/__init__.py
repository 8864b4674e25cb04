"""Make a release: one folder from which another machine installs. `python -m scripts.release` is for people.

`folder` makes it of the parts that the other modules make. The same commit gives the same bytes.
"""
