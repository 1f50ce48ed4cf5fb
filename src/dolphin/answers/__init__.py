"""Answers to questions about a result: events, evidence, moments, and why it does not learn."""
