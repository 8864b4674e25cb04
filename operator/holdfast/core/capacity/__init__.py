"""Which tier a job should be on: a view of the tiers in, a Choice with its reason out. Pure."""
