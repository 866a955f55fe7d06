"""Generators: from a latent vector and a class to a record; they never see a record."""
