"""What each task of a queue program does, decided once for all code targets."""
