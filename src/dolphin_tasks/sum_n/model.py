"""The network of SumN: the paper's CNN reads each image on its own."""

from dolphin_tasks.digits import digit_distributions, read_digits
from dolphin_tasks.mnist import digit_network

__all__ = ["digit_distributions", "digit_network", "read_digits"]
