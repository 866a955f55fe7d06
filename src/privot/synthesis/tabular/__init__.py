"""Tables: the one release that is planned from a schema, and the model that is fitted to it; it sees no record.

vault = Vault.open("private.csv", Schema.load("schema.json"), adjacency="add-remove", budget=(1.0, 1e-6))
synthesizer = Synthesizer(1.0, 1e-6).fit(vault)
table, _ = synthesizer.sample(10_000)
"""
