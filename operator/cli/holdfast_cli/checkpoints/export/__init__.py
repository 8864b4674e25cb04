"""`holdfast checkpoints export`: weights as safetensors, without torch."""
