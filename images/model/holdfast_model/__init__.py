"""Tools for models and their data: what `holdfast-train` does besides moving checkpoints. No training pod needs it.

Rooms, from the top: commands; evaluation and estimate; package; census; pages. Each imports only what stands below it.
Programs need the names of `package` alone.
"""
