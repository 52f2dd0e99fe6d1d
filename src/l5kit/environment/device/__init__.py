"""Environments on a device: scenes, road users and AVs in device memory, moved and checked by kernels."""
