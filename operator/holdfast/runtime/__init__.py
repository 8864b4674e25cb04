"""The operator process: watch -> cache -> queue -> reconcile -> execute, and what keeps it healthy."""
