"""Mutation testing: compiled programs broken on purpose, and who notices."""
