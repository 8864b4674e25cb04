"""Capacity policies: which tier a job should be on, and why.

Belongs here: what is known of the tiers, the input of the policies, the policies, the budget and the risk for a
deadline. Does not belong here: any change of a job's status, and anything that acts. Layers: imports observe.
"""
