"""HTTP that pods, people and probes call: the progress endpoint, orders, metrics."""
