"""Privacy loss distributions: dominating pairs, their discretisation, and composition by FFT."""
