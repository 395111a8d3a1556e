"""Tests of data_plane.node.leasing."""
