"""Options of passes, targets and policies: dataclass fields with a text syntax."""
