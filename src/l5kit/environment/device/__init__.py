"""Environments on a device: scenes, road users and AVs in its memory, moved and checked by kernels there."""
