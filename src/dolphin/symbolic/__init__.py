"""The symbolic stage: from user functions and symbols to plans. No tensors here."""
