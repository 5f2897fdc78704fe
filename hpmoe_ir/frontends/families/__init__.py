"""What the experts of each family of models compute, and which fields of its files say so."""
