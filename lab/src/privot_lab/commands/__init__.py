"""Commands that the laboratory adds to `privot`: `bench` and `study`."""
