"""Tests of the usage pipeline; one Spark session a test process."""
