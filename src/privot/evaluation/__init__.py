"""How good synthetic data is, judged against data that was never used to make it; nothing here is a release."""
