"""Tables: the one release that is planned from a schema, and the model that is fitted to it; it sees no record.

codec = TableCodec(Schema.load("schema.json"))
x, y = encode_file("private.csv", codec, compact=True)
vault = Vault(x, y, clip=codec.bound(compact=True), classes=codec.classes, adjacency="add-remove", budget=(1.0, 1e-6))
synthesizer = Synthesizer(1.0, 1e-6, codec=codec).fit(vault)
table, _ = synthesizer.sample(10_000)
"""
