"""Running plans on tags."""
