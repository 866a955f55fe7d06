"""Pages that people read: one self-contained HTML file per page, with pictures inside; they show what files say.

Nothing here opens a vault, a ledger or a record. A page takes words, tables and drawings, escapes all of them, and
needs neither a network nor a script.
"""
