"""A local page to plan a budget on: it answers with what the library computes, and reads no record.

The page shows and sends what was typed; every number on it comes from the functions behind `privot account`,
`privot release` and `privot synth`. Nothing here opens a vault or charges a ledger.
"""
