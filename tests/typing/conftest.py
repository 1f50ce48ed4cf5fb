"""The files that pyright reads are not meant to be run."""

collect_ignore = ["right_calls.py", "wrong_calls.py"]
