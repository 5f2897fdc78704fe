"""What the IR can say: one module a dialect, and the region arithmetic beside them."""
