"""A training that hangs: what its ranks do, which of them is at fault, and where that is kept."""
