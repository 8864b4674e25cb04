"""What pods and Prometheus call: the progress endpoint, orders, metrics.

Belongs here: HTTP requests and answers, authentication, certificates, reports in memory, metrics.
Does not belong here: requests to the API server (runtime), decisions (core).
"""
