"""The operator process: everything with I/O between the API server and the pure core.

Belongs here: requests, watches, the loop over jobs, what runs beside it, health, settings, logs.
Does not belong here: decisions (core), HTTP for pods (serve).
"""
