"""The proof behind `verify-queues`."""
