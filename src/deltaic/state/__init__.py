"""Read and write states: all records of all types at one version."""
