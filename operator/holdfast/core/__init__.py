"""What to do: `decide(Snapshot) -> Decision`. Pure: no I/O, no clock, no randomness; time comes in as an argument."""
