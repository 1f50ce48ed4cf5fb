"""ProductN: read N handwritten digits, knowing only their product."""
