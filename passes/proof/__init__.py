"""The static checks of `verify-queues`."""
