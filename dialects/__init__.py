"""The dialects of the IR, one module each, with index expressions and accesses beside them."""
