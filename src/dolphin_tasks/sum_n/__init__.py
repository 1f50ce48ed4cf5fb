"""SumN: read N handwritten digits, knowing only their sum."""
