"""What a later part of the budget improves: labels of samples, and how far they are warped."""
