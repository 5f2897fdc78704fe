"""Running a compiled layer and judging its results."""
