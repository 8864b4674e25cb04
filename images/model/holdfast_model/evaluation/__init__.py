"""How good packages of models are on new data: scores by class, calibration, the worst examples, and which one ships.

Belongs here: data as inputs of a package's model, scores of what it answers, and the report of it.
Does not belong here: opening and running a model (package); counts of a data set (census); HTML (pages).
"""
