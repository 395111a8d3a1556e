"""Hosts of one run: network namespaces with addresses, disks and clocks of their own, and the processes on them."""
