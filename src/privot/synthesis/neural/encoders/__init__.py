"""Public encoders: networks from files, read operator by operator and evaluated by code of privot's own."""
