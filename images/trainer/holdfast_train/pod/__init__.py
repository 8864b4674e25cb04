"""What a process needs to be a pod: PID 1, the init container, progress reports, verdicts of ranks.

Belongs here: signals, the termination message, the client of the progress endpoint, data-loader workers.
Does not belong here: checkpoints, except the probe of the storage in the init container.
The modules in `launcher` import only the standard library: the init container copies them into other images.
"""
