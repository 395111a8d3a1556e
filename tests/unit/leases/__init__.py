"""Tests of data_plane.leases."""
