"""Plain twins of the compiled kernels: slow, obvious, and the same."""
