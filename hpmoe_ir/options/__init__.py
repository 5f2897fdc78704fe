"""Options of passes, targets and policies: declared as fields, written and read as text."""
