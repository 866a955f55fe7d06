"""Accountants that count while a run goes on, all behind one interface; each says how firmly its number stands."""
