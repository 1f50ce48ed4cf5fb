"""Member: read digits, knowing only whether a given digit is among them."""
