"""What can be audited from a path: a folder of `privot synth`, a release, an exchange, a transcript."""
