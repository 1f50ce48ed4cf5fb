"""The task that `dolphin new-task` starts from: a working one, to be changed step by step."""
