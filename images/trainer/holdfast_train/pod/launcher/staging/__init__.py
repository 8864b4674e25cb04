"""Data of trainer.data, copied before the program starts."""
