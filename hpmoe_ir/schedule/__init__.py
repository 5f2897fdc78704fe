"""Named schedules and the search for one."""
