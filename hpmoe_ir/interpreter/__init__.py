"""NumPy execution of each level, all ranks in one process."""
