"""What the IR can say: one module a dialect, with index expressions and accesses beside them."""
