"""From the queue level to Ascend C, task tables and the host side."""
