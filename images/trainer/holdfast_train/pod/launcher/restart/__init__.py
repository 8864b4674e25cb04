"""How the program of the next attempt starts faster than in a new process."""
