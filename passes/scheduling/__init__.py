"""List scheduling: task graph, durations and free cores."""
