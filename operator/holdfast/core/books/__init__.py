"""What is over, and what it cost: history and ledger.

Belongs here: sums over ended attempts, money, node time, recovery time.
Does not belong here: forecasts (status) and choices of a tier (capacity).
"""
