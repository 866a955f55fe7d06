"""What later parts of a budget pay for once a generator is trained: labels of samples, and the warp of samples."""
