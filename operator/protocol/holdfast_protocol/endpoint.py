"""The progress endpoint of the operator: its paths, and how long a call of a pod may wait for an order."""

from __future__ import annotations

JOB = "/v1/namespaces/{namespace}/jobs/{job}"  # begins each path
PROGRESS = f"{JOB}/progress"  # POST a report; the answer has the orders
ORDERS = f"{JOB}/orders"  # GET the orders: waits for the first one
MEMBER = f"{JOB}/member"  # POST the report of a member: waits for its order

POD_UID = "podUID"  # in a query
WAIT_SECONDS = 50  # for an order in one call: many proxies close a connection that is idle for 60 s
LONGEST_WAIT = 60.0  # seconds; the operator refuses a call that wants to wait longer
