"""The private sketch: one noisy sum of bounded coordinates, and the public design of it."""
