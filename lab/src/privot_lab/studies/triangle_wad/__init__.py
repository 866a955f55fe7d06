"""Studies of Li, Huang, Wang & Pang 2024, *Private Wasserstein Distance with Random Noises*."""
