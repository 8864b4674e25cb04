"""What makes a process a good pod: PID 1, the init container, progress reports, verdicts of ranks.

Belongs here: signals, the termination message, the progress endpoint's client, data-loader workers.
Does not belong here: checkpoints, except the probe of the storage in the init container.
`launcher.py` is one file of the standard library alone: the init container copies it into foreign images.
"""
