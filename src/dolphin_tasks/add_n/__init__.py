"""AddN: read two N-digit numbers, knowing only their sum."""
