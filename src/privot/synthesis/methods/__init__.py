"""One module per synthesis method, and what they share: paid blocks, the dry run, generated points."""
