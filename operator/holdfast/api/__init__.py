"""The API: pydantic models of TrainingJob and CapacityProfile, from which the CRDs are generated.

Belongs here: fields, their descriptions and validation, names, the operator's rights, the base of all errors.
Does not belong here: decisions (core), I/O of any kind: this package is pure.
"""
