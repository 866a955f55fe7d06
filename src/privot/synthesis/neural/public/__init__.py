"""Public images beside the records: what they are, and what a synthesis makes of them; no record comes here."""
