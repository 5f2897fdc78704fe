"""Named schedules, and the search for a schedule on the timing model."""
