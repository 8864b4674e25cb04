"""The API: pydantic models of TrainingJob and CapacityProfile, from which the CRDs are generated. Pure."""
