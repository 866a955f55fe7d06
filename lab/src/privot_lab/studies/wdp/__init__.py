"""Studies of Yang, Qi & Zhou 2024, *Wasserstein Differential Privacy*."""
