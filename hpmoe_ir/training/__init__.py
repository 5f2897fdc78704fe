"""What a framework's module of experts needs and no framework has: kernels, launches, layouts."""
