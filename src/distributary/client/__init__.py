"""Shared tables of any Delta Sharing server, as Arrow and every frame."""
