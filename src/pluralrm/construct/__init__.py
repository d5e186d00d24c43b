"""Making benchmarks, and asking whether one is sound."""
