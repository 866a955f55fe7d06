"""What `privot audit` runs, by its target."""
