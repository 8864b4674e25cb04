"""What the progress endpoint needs from the cluster: its CA, the review of tokens, which pod belongs to which job.

Belongs here: the bridge between serve and the API server.
Does not belong here: HTTP itself (serve).
"""
