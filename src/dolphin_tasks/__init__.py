"""Benchmark tasks: real data, networks and programs over `dolphin`'s public interface."""
