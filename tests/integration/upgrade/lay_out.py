"""A program that either release runs: makes the files of a service with three brokers in a folder, as `penstock dev up`
does. Usage: python lay_out.py FOLDER
"""

import sys
from pathlib import Path

from local.broker_config import write_broker_config
from local.layout import DataDirectory
from local.service_layout import Backends, ServiceDirectory

directory = DataDirectory(Path(sys.argv[1]))
cluster = directory.load_or_create(3)
for broker in cluster.brokers:
    write_broker_config(directory, cluster, broker)
service = ServiceDirectory(directory)
service.write_config(service.load_or_create(Backends()), cluster)
